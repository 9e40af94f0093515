"""wheel.py STAGE VERSION ARCH OUT packs what `make install` put below STAGE into a wheel, without installing anything.

The binary is a script of the wheel, so no Python runs when gpurun starts. The same files give the same bytes.
"""

import base64
import hashlib
import os
import pathlib
import sys
import time
import zipfile

PLATFORM = {"amd64": "manylinux_2_17_x86_64", "arm64": "manylinux_2_17_aarch64"}
MAIN = """import os
import sys
import sysconfig

path = os.path.join(sysconfig.get_path("scripts"), "gpurun")
os.execv(path, [path, *sys.argv[1:]])
"""


def main(stage, version, arch, out):
    stage = pathlib.Path(stage)
    tag = f"py3-none-{PLATFORM[arch]}"
    info, data = f"gpurun-{version}.dist-info", f"gpurun-{version}.data"
    readme = (stage / "share/doc/gpurun/README.md").read_text()
    files = {
        "gpurun/__init__.py": (b"", 0o644),
        "gpurun/__main__.py": (MAIN.encode(), 0o644),
        f"{info}/METADATA": (
            (
                f"Metadata-Version: 2.1\nName: gpurun\nVersion: {version}\n"
                "Summary: Runs batch job files on the GPUs of a shared server\nLicense: MIT\n"
                "Classifier: Operating System :: POSIX :: Linux\nRequires-Python: >=3.7\n"
                f"Description-Content-Type: text/markdown\n\n{readme}"
            ).encode(),
            0o644,
        ),
        f"{info}/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: gpurun\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
            0o644,
        ),
        f"{info}/licenses/LICENSE": ((stage / "share/doc/gpurun/LICENSE").read_bytes(), 0o644),
    }
    for path in sorted(p for p in stage.rglob("*") if p.is_file()):
        name = path.relative_to(stage).as_posix()
        if name.startswith("bin/"):
            files[f"{data}/scripts/{name[4:]}"] = (path.read_bytes(), 0o755)
        else:
            files[f"{data}/data/{name}"] = (path.read_bytes(), 0o644)
    record = "".join(f"{name},{digest(body)},{len(body)}\n" for name, (body, _) in files.items())
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)

    made = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, (body, mode) in files.items():
            entry = zipfile.ZipInfo(name, date_time=made)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whose modes these are
            wheel.writestr(entry, body)


def digest(body):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()


main(*sys.argv[1:])
