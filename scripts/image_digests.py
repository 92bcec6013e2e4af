"""Pins container images by digest.

    python scripts/image_digests.py                                  # writes deploy/images.env
    python scripts/image_digests.py registry.example/shuffledp:0.3.0 # and pins your own image

The first asks the registries for the digest of every tag in deploy/images.txt. The second also
writes deploy/kubernetes/kustomization.yaml with the digest of your own image, for
`kubectl apply -k`. For registries that need a password, use `skopeo inspect`.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
HOSTS = {"docker.io": "registry-1.docker.io"}
"""Registries whose API has another name."""
IMAGE = re.compile(r"(?P<host>[^/]+)/(?P<name>[a-z0-9._/-]+):(?P<tag>[\w.-]+)")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
SECONDS = 30
ROLES = ("shuffler", "analyzer", "issuer", "relay")


class RegistryError(Exception):
    """A registry did not say what an image's digest is."""


def digest_of(image: str, scheme: str = "https") -> str:
    """The digest that a registry gives for host/name:tag."""
    found = IMAGE.fullmatch(image)
    if found is None:
        raise RegistryError("Give the image as HOST/NAME:TAG.")
    host = HOSTS.get(found["host"], found["host"])
    url = f"{scheme}://{host}/v2/{found['name']}/manifests/{found['tag']}"
    said = _head(url, "")
    if said.get("www-authenticate"):
        said = _head(url, _token(said["www-authenticate"], found["name"]))
    digest = said.get("docker-content-digest", "")
    if not DIGEST.fullmatch(digest):
        raise RegistryError(f"The registry names no digest for {image}; check the tag.")
    return digest


def _head(url: str, token: str) -> dict[str, str]:
    """The headers of a manifest, or of the request for a token (401)."""
    headers = {"Accept": MANIFESTS} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, headers=headers, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return {name.lower(): value for name, value in answer.headers.items()}
    except urllib.error.HTTPError as error:
        if error.code == 401 and not token:
            return {"www-authenticate": error.headers.get("WWW-Authenticate", "Bearer")}
        raise RegistryError(
            f"The registry answered {error.code}; check the image's name."
        ) from None
    except OSError:
        raise RegistryError("The registry cannot be reached; check the network.") from None


def _token(challenge: str, name: str) -> str:
    """A token for anybody, from the server that the registry names."""
    given = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if "realm" not in given:
        raise RegistryError("The registry needs a password; use skopeo inspect instead.")
    asked = {"scope": f"repository:{name}:pull"}
    if "service" in given:
        asked["service"] = given["service"]
    try:
        url = f"{given['realm']}?{urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            said = json.load(answer)
    except (OSError, ValueError):
        raise RegistryError("The registry gave no token; try again.") from None
    return str(said.get("token") or said.get("access_token") or "")


def tags(text: str) -> dict[str, str]:
    """The images in deploy/images.txt, by the name of their variable."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def environment(images: dict[str, str], scheme: str = "https") -> str:
    """The text of deploy/images.env: every image with its digest."""
    return "".join(f"{name}={image}@{digest_of(image, scheme)}\n" for name, image in images.items())


def kustomization(image: str, digest: str) -> str:
    """A kustomization that puts an image with its digest into the manifests. Each organisation
    keeps the one line of `resources` that is its own."""
    lines = "".join(f"  # - {role}.yaml\n" for role in ROLES)
    name = image.rpartition(":")[0]
    return (
        "# Remove the # of the role that you run; only one per cluster.\n"
        f"resources:\n{lines}"
        f'images:\n  - {{name: shuffledp, newName: {name}, digest: "{digest}"}}\n'
    )


def main(words: list[str]) -> int:
    """Writes the files; exit code 1 if a registry does not answer."""
    try:
        env = environment(tags((DEPLOY / "images.txt").read_text("utf-8")))
        own = [(image, digest_of(image)) for image in words[:1]]
    except RegistryError as error:
        print(error, file=sys.stderr)
        return 1
    (DEPLOY / "images.env").write_text(env, "utf-8")
    for image, digest in own:
        text = kustomization(image, digest)
        (DEPLOY / "kubernetes" / "kustomization.yaml").write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
