"""Runs the scenario files of conformance/ with the generated code.

What the files may say is in conformance/README.md; the runners of the other
languages have the same steps under the same names.
"""

from conformance.scenario import Scenario, StepError
from conformance.world import Mesh

__all__ = ["Mesh", "Scenario", "StepError"]
