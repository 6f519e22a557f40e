# yuba and nothing else, of what "make release" made in dist/:
#
#   docker build --build-arg VERSION=1.2.3 -t registry.example.org/yuba:1.2.3 .
#
# docs/ci.md says how it is run. There are no certificate authorities in it:
# mount a file and let SSL_CERT_FILE name it, or build one more layer that has
# it as /etc/ssl/certs/ca-certificates.crt.
FROM scratch
ARG VERSION
ARG TARGETARCH
COPY --chmod=0755 dist/yuba-${VERSION}-linux-${TARGETARCH} /yuba
USER 65534:65534
ENTRYPOINT ["/yuba"]
