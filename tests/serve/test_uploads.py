"""Uploads that are not what they seem: cut off, told twice, or more than the limit after a restart."""
import time

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
            for lines in b"", b"Content-Disposition: form-data\r\n", b'Content-Disposition: form-data; filename="x"\r\n':
                self.refused(server, b"--bbb\r\n" + lines + b"\r\nzz\r\n" + END, None, "a part of the upload has no name")
            self.refused(server, part("file", b"") + END, "file", "the file is empty")
            for first in b"", b"A\r":
                self.refused(server, part("file", first) + file + END, "file", "more than one part 'file'")
            self.refused(server, part("purpose", b"") + part("purpose", b"b") + file + END, "purpose", "more than one")
            self.refused(server, file + END, None, "a boundary of 1 to 70", {"Content-Type": "multipart/form-data; boundary=" + "b" * 71})
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

    def test_a_file_in_pieces(self):
        """Cut where libmicrohttpd tells of the part before it has any of its bytes, and within delimiters."""
        with Server("--slots", "1", "--upload-dir", self.path("uploads")) as server:
            content = b"\r\n--bb\r\r\n--b"
            body = part("file", content) + part("purpose", b"vision") + END
            begin = body.index(content)
            for cut in (*range(begin, begin + 4), begin + len(content) + 3, len(body) - 5):
                with server.connect() as c:
                    c.sendall(b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=\"bbb\"\r\n"
                              b"Content-Length: %d\r\n\r\n" % len(body) + body[:cut])
                    time.sleep(0.05)
                    c.sendall(body[cut:])
                    self.assertIn(b'"bytes":%d,' % len(content), c.recv(4096))

    def test_entries_count(self):
        """Files of a byte fill the room, too: 255 in a MiB."""
        body = part("file", b"A") + END
        with Server("--slots", "1", "--upload-dir", self.path("uploads"), "--uploads-mib", "1") as server:
            made = [server.request("POST", "/v1/files", body, KIND) for _ in range(256)]
            self.assertEqual(([r.status for r in made[:-1]], made[-1].status), ([200] * 255, 507))
            server.request("DELETE", "/v1/files/" + made[0].json["id"])
            self.assertEqual([server.request("POST", "/v1/files", body, KIND).status for _ in range(2)], [200, 507])

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
