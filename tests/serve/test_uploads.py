"""Uploads that are not what they seem: cut off, told twice, or more than the limit after a restart."""
from server import Case, Server, main

KIND = {"Content-Type": "multipart/form-data; boundary=bbb"}
END = b"--bbb--\r\n"


def part(name, value):
    filename = '; filename="x"' if name == "file" else ""
    return f'--bbb\r\nContent-Disposition: form-data; name="{name}"{filename}\r\n\r\n'.encode() + value + b"\r\n"


class Uploads(Case):
    def refused(self, server, body, param, words, kind=None):
        reply = server.request("POST", "/v1/files", body, kind or KIND)
        self.assertEqual((reply.status, reply.json["error"]["param"]), (400, param), reply.text)
        self.assertIn(words, reply.json["error"]["message"])

    def test_forms(self):
        file = part("file", b"AAAA" * 100)
        with Server("--slots", "1", "--upload-dir", self.path("uploads")) as server:
            cut = "does not end with its boundary"
            self.refused(server, file, "file", cut)
            self.refused(server, file + END[:5], "file", cut)
            self.refused(server, file[:-50], "file", cut)
            self.refused(server, (file + END).replace(b"\r\n", b"\n"), "file", cut)
            self.refused(server, part("purpose", b"vision") + file + part("purpose", b"b") + END, "purpose", "more than one")
            self.refused(server, part("purpose", b"a\0b") + file + END, "purpose", "a byte of 0")
            self.refused(server, part("purpose", b"\xff") + file + END, "purpose", "not UTF-8")
            self.refused(server, file + part("expires_after[seconds]", b"3600") + END, "expires_after[seconds]", "not known here")
            self.refused(server, b"file=AAAA&purpose=b", None, "must be multipart", {"Content-Type": "application/x-www-form-urlencoded"})
            self.assertEqual(server.get("/v1/files").json["data"], [])
            long = ("é" * 150).encode()
            made = server.request("POST", "/v1/files", (file + END[:-2]).replace(b'"x"', b'"' + long + b'"'), KIND).json
            self.assertEqual((made["bytes"], made["filename"]), (400, "é" * 99))

    def test_a_field_that_is_not_known_is_named(self):
        with Server("--slots", "1", "--upload-dir", self.path("uploads"), "--lenient-fields") as server:
            made = server.request("POST", "/v1/files", part("file", b"A") + part("ttl", b"9") + END, KIND).json
            self.assertEqual(made["warnings"], ["'ttl' is not known here and has no effect"])
            self.assertNotIn("warnings", server.get("/v1/files/" + made["id"]).json)
            self.assertNotIn("warnings", server.get("/v1/files").json["data"][0])

    def test_more_than_the_limit_is_there(self):
        options = "--slots", "1", "--upload-dir", self.path("uploads"), "--uploads-mib"
        with Server(*options, "4") as server:
            first = server.request("POST", "/v1/files", part("file", b"A" * (2 << 20)) + END, KIND).json
        with Server(*options, "1") as server:
            body = part("file", b"A" * 1000) + END
            reply = server.request("POST", "/v1/files", body, KIND)
            self.assertEqual((reply.status, reply.json["error"]["code"]), (507, "uploads_full"))
            server.request("DELETE", "/v1/files/" + first["id"])
            self.assertEqual(server.request("POST", "/v1/files", body, KIND).status, 200)


if __name__ == "__main__":
    main()
