"""`python -m shuffledp_check FILE [FILE …]`."""

from shuffledp_check.certificate import main

raise SystemExit(main())
