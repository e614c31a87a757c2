"""EasyBuild reads the recipes in packaging/easybuild: their style, that all they depend on is there, among EasyBuild's own recipes and
ours, and that no two versions of a library come together. Nothing is fetched or built, and no module system takes part.
"""

import atexit
import contextlib
import io
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

RECIPES = pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "packaging" / "easybuild"
WORK = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, WORK, ignore_errors=True)
os.environ["HOME"] = str(WORK)  # in which no configuration of EasyBuild lies

from easybuild.framework.easyconfig.style import check_easyconfigs_style  # noqa: E402
from easybuild.framework.easyconfig.tools import parse_easyconfigs  # noqa: E402
from easybuild.tools import modules  # noqa: E402
from easybuild.tools.build_log import EasyBuildError  # noqa: E402
from easybuild.tools.options import set_up_configuration  # noqa: E402
from easybuild.tools.robot import check_conflicts, resolve_dependencies  # noqa: E402

set_up_configuration(args=[f"--prefix={WORK}", f"--tmpdir={WORK}", f"--robot={RECIPES}:{sys.prefix}/easybuild/easyconfigs", "--allow-use-as-root-and-accept-consequences",
                           "--module-syntax=Tcl"], silent=True)  # fmt: skip
modules.get_modules_tool = lambda: None  # which EasyBuild takes for NoModulesTool


def parsed(path):
    recipes, _ = parse_easyconfigs([(str(path), False)], validate=True)
    return recipes


class Easyconfig(unittest.TestCase):
    def setUp(self):
        self.modules = modules.modules_tool(testing=True)
        (self.recipe,) = RECIPES.glob("ddpm-*.eb")

    def test_style(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            errors = check_easyconfigs_style([str(path) for path in RECIPES.glob("*.eb")])
        self.assertEqual(errors, 0, said.getvalue())

    def test_all_that_they_depend_on_is_there(self):
        ordered = [recipe["full_mod_name"] for recipe in resolve_dependencies(parsed(self.recipe), self.modules, retain_all_deps=True)]
        print(len(ordered), "recipes are needed")
        for name in ("kissfft/131.1.0-GCCcore-13.3.0", "HDF5/1.14.5-gompi-2024a", "foss/2024a", "libwebp/1.4.0-GCCcore-13.3.0"):
            self.assertIn(name, ordered)
        self.assertTrue(ordered[-1].startswith("ddpm/"))

    def test_no_two_versions_of_a_library_come_together(self):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            self.assertFalse(check_conflicts(parsed(self.recipe), self.modules))

    def test_a_version_that_easybuild_does_not_have_is_seen(self):
        broken = WORK / self.recipe.name
        broken.write_text(re.sub(r"\('fmt', '[\d.]+'\)", "('fmt', '11.0.99')", self.recipe.read_text()))
        with self.assertRaisesRegex(EasyBuildError, "fmt/11.0.99"):
            resolve_dependencies(parsed(broken), self.modules, retain_all_deps=True)

    def test_a_parameter_that_easybuild_does_not_know_is_seen(self):
        broken = WORK / self.recipe.name
        broken.write_text(self.recipe.read_text().replace("configopts =", "configoptions ="))
        with self.assertRaises(EasyBuildError):
            parsed(broken)


if __name__ == "__main__":
    unittest.main(verbosity=2)
