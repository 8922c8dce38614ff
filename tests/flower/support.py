"""For the tests with real Flower processes: a recording proxy, certificates, keys."""

import datetime
import http.client
import ipaddress
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tools.flower.federation import HOST, Certificates


class Proxy:
    """Stands between a SuperNode and the SuperLink, forwards all and writes down what is sent."""

    def __init__(self, port):
        seen = self.sent = []
        names = ("content-length", "transfer-encoding", "connection")

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                seen.append((self.path, str(self.headers), body))
                link = http.client.HTTPConnection(HOST, port, timeout=30)
                try:
                    link.request(self.command, self.path, body, dict(self.headers))
                    answer = link.getresponse()
                    content = answer.read()
                except OSError:  # the SuperLink is gone: so is the proxy, for this node
                    self.close_connection = True
                    return
                finally:
                    link.close()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in names:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST  # noqa: N815 - their names in the library

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer((HOST, 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def certificates(folder):
    """An authority, and a server's certificate for loopback."""
    now = datetime.datetime.now(datetime.UTC)

    def build(name, key, issuer, signer, authority):
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer or subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(authority, None), critical=True)
        )
        if not authority:
            names = [x509.IPAddress(ipaddress.ip_address(HOST)), x509.DNSName("localhost")]
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return subject, made.sign(signer, hashes.SHA256())

    root, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer, authority = build("fedsel tests", root, None, root, authority=True)
    _, certificate = build("localhost", server, issuer, root, authority=False)
    files = Certificates(folder / "ca.crt", folder / "server.pem", folder / "server.key")
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(private_bytes(server, serialization.PrivateFormat.TraditionalOpenSSL))
    return files


def node_key(file):
    """A key pair as ssh-keygen makes it: ``file`` and ``file``.pub."""
    key = ec.generate_private_key(ec.SECP384R1())
    file.write_bytes(private_bytes(key, serialization.PrivateFormat.OpenSSH))
    file.chmod(0o600)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    file.with_suffix(".pub").write_bytes(public)
    return file


def private_bytes(key, form):
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
