"""sbom.py BINARY VERSION prints a CycloneDX list of the modules in a Go binary, as `go version -m` reports them."""

import json
import os
import subprocess
import sys
import time
import urllib.parse


def purl(path, version):
    return f"pkg:golang/{urllib.parse.quote(path)}@{urllib.parse.quote(version)}"


def main(binary, version):
    lines = subprocess.run(
        [os.environ.get("GO", "go"), "version", "-m", binary], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    go = lines[0].rsplit(" ", 1)[1].removeprefix("go")
    components = [{"type": "library", "bom-ref": purl("stdlib", go), "name": "stdlib", "version": go, "purl": purl("stdlib", go)}]
    for line in lines:
        fields = line.split()
        if fields[:1] == ["dep"]:
            ref = purl(fields[1], fields[2])
            components.append({"type": "library", "bom-ref": ref, "name": fields[1], "version": fields[2], "purl": ref})
    root = purl("gpurun", version)
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))
    json.dump(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {
                "timestamp": made,
                "component": {"type": "application", "bom-ref": root, "name": "gpurun", "version": version, "licenses": [{"license": {"id": "MIT"}}]},
            },
            "components": components,
            "dependencies": [{"ref": root, "dependsOn": [c["bom-ref"] for c in components]}],
        },
        sys.stdout,
        indent=1,
    )
    print()


main(*sys.argv[1:])
