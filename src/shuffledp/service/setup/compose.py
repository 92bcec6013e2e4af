"""The compose file of one organisation's server."""

from __future__ import annotations

import os

from shuffledp.version import __version__

COMPOSE = """\
# Runs this folder's {role} in a container: podman compose up --detach (or docker compose).
# Build the image once, in a checkout; the first command looks up the digest of its base image:
#   python scripts/image_digests.py
#   podman build -t shuffledp:{version} --build-arg-file deploy/images.env -f deploy/Containerfile .
# or set SHUFFLEDP_IMAGE to a published image with its digest: name@sha256:…
services:
  {role}:
    image: ${{SHUFFLEDP_IMAGE:-localhost/shuffledp:{version}}}
    command: [start, /data]
    environment:
      {variable}: 0.0.0.0:{port}
    user: "{user}"
    working_dir: /data
    volumes:
      - .:/data
    ports: ["{published}:{port}"]
    read_only: true
    tmpfs: [/tmp]
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    mem_limit: 2g
    pids_limit: 256
    restart: unless-stopped
    stop_grace_period: 20s
    healthcheck:
      # to this container's own address, for which no certificate is made out
      test: [CMD, python, -c, "import ssl, urllib.request as r; \\
        r.urlopen('{scheme}://127.0.0.1:{port}/readyz', context=ssl._create_unverified_context())"]
      interval: 10s
      timeout: 5s
"""
IMAGE_USER = 10001


def compose_text(role: str, listen: str, tls: bool) -> str:
    """A compose file for the server in a folder. The user that made the folder runs it, because
    nobody else can read the keys."""
    host, _, port = listen.rpartition(":")
    uid, gid = (os.getuid(), os.getgid()) if hasattr(os, "getuid") else (0, 0)
    return COMPOSE.format(
        role=role,
        variable=f"SHUFFLEDP_{role}_LISTEN".upper(),
        version=__version__,
        user=f"{uid}:{gid}" if uid else f"{IMAGE_USER}:{IMAGE_USER}",
        published=port if host in ("0.0.0.0", "[::]") else f"{host}:{port}",
        port=port,
        scheme="https" if tls else "http",
    )
