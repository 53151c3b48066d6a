"""Adds the generated modules of ackmesh.v1 to the package.

They are written by `make gen-python` into gen/python at the root of the
repository. A source distribution carries a copy at the same path below its own
root, so that a wheel can be built from it alone.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GENERATED = Path("gen/python/ackmesh/v1")


class GeneratedCode(BuildHookInterface):  # type: ignore[type-arg]
    """Places GENERATED in what is built; fails when there is none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # dev-mode-dirs names the folder itself: no copy that ages.
        source = self._find()
        target = str(GENERATED) if self.target_name == "sdist" else "ackmesh/v1"
        build_data["force_include"][str(source)] = target

    def _find(self) -> Path:
        root = Path(self.root)
        candidates = [root / GENERATED, root.parent.parent / GENERATED]
        for candidate in candidates:
            if candidate.is_dir():
                return candidate
        looked = " nor ".join(str(c) for c in candidates)
        raise FileNotFoundError(f"no generated code: neither {looked}; run `make gen-python`")
