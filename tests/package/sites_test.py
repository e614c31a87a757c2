"""docs/sites.md as far as it can be tried without the systems that it is about: Python that parses. tests/jobs/batch_test.py tries
the job scripts that it names.
"""

import os
import pathlib
import re
import unittest

PAGE = (pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "docs" / "sites.md").read_text()


def blocks(section, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0], re.MULTILINE | re.DOTALL)


class Sites(unittest.TestCase):
    def test_recipes_are_python(self):
        for section in ("Spack", "EasyBuild"):
            (recipe,) = blocks(section, "python")
            compile(recipe, section, "exec")

    def test_the_page_says_that_it_is_not_tested(self):
        self.assertIn("**Not tested here.**", PAGE.split("\n## ")[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
