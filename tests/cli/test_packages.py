"""The Debian packages of cpack, installed into a root of their own and removed again. Root's rights are needed, the network is not."""
import glob
import os
import re
import shutil
import subprocess
import unittest

from cli import SACCADE, TIMEOUT_S, Case, main, sample

BUILD = os.path.dirname(SACCADE)
NEEDED = "cpack", "dpkg", "dpkg-shlibdeps", "file", "pkg-config"
PACKAGES = {"saccade", "saccade-demo", "libsaccade0.2", "libsaccade-dev"}


def output(*command, **options):
    run = subprocess.run(command, text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if run.returncode:
        raise AssertionError(f"{command}: {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout


@unittest.skipUnless(all(map(shutil.which, NEEDED)), "needs " + ", ".join(NEEDED))
@unittest.skipUnless(os.geteuid() == 0, "dpkg needs root's rights")
@unittest.skipUnless(os.path.exists(os.path.join(BUILD, "libsaccade.so")), "built without -DSAC_SHARED=ON")
class Packages(Case):
    def dpkg(self, *arguments):
        # what the packages depend on is this system's; their scripts find a ldconfig that leaves its cache alone
        stub = self.path("ldconfig", "#!/bin/sh\n")
        os.chmod(stub, 0o755)
        environment = dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}")
        return output("dpkg", f"--root={self.root}", f"--log={self.folder}/dpkg.log", "--force-depends", "--force-script-chrootless",
                      *arguments, env=environment)

    def installed(self):
        """All that is in the root but dpkg's own notes."""
        paths = [os.path.relpath(os.path.join(at, name), self.root) for at, _, names in os.walk(self.root) for name in names]
        return {path for path in paths if not path.startswith("var/lib/dpkg/")}

    def test_install_ask_build_remove(self):
        output("cpack", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", self.path("made"))
        files = glob.glob(self.path("made/*.deb"))
        fields = [re.findall(r"^(Package|Depends): (.*)", output("dpkg", "-f", file), re.M) for file in files]
        depends = {dict(f)["Package"]: dict(f).get("Depends", "") for f in fields}
        self.assertEqual(set(depends), PACKAGES)
        self.assertIn("libc6", depends["libsaccade0.2"])
        self.assertNotIn("libmicrohttpd", depends["libsaccade0.2"])
        self.assertRegex(depends["libsaccade-dev"], r"\Alibsaccade0\.2 \(= ")

        self.root = self.path("root")
        for name in "updates", "info", "triggers":
            os.makedirs(os.path.join(self.root, "var/lib/dpkg", name))
        open(os.path.join(self.root, "var/lib/dpkg/status"), "w").close()
        self.dpkg("--install", *files)
        usr = os.path.join(self.root, "usr")
        row = sample(video=False)
        environment = {k: v for k, v in os.environ.items() if k != "SACCADE_MODEL"}
        command = [os.path.join(usr, "bin/saccade"), "ask", "--image", row["file"], row["question"]]
        self.assertEqual(output(*command, env=environment), row["answer"] + "\n")

        environment["PKG_CONFIG_PATH"] = os.path.join(usr, "lib/pkgconfig")
        flags = output("pkg-config", "--cflags", "--libs", "saccade", env=environment).split()
        self.assertIn(usr, " ".join(os.path.normpath(flag) for flag in flags))
        program = self.path("describe")
        output(os.environ.get("CC", "cc"), "-std=c11", "examples/describe.c", "-o", program, *flags)
        environment["LD_LIBRARY_PATH"] = os.path.join(usr, "lib")
        model = os.path.join(usr, "share/saccade/demo")
        self.assertEqual(output(program, model, row["file"], row["question"], env=environment), row["answer"] + "\n")

        for name in "usr/share/zsh/vendor-completions/_saccade", "usr/lib/systemd/system/saccade.service", "etc/saccade/serve.yaml", \
                "usr/share/saccade/reproduce/zipvl.yaml":
            self.assertIn(name, self.installed())
        self.path("root/etc/saccade/serve.yaml", "serve: {port: 8001}\n")
        self.dpkg("--install", "--force-confdef", "--force-confold", *files)
        with open(self.path("root/etc/saccade/serve.yaml"), encoding="utf-8") as f:
            self.assertEqual(f.read(), "serve: {port: 8001}\n")  # what an administrator wrote stays
        self.dpkg("--purge", *PACKAGES)
        self.assertEqual(self.installed(), set())
        self.assertFalse(os.path.exists(os.path.join(usr, "share/saccade")))


if __name__ == "__main__":
    main()
