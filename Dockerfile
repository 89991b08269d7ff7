# The image is one static binary. Build the binary first (glibc, linked statically), then the image from a
# directory that holds nothing else:
#
#   RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --target x86_64-unknown-linux-gnu
#   mkdir -p target/image && cp target/x86_64-unknown-linux-gnu/release/publication-operator target/image/
#   docker build -f Dockerfile -t publication-operator:0.1.0 target/image
#
# The explicit --target matters: without it RUSTFLAGS also reach build scripts and proc macros, which cannot be
# linked statically.
#
# No CA roots are copied: the API server's come with the ServiceAccount, ClickHouse's with spec.tls.caRef, and the public
# ones are in the binary. The numeric user lets Kubernetes verify runAsNonRoot.
#
# Untested variant that builds inside (needs a base image to be pulled); run it at the root of the repository with
# target/ in .dockerignore:
#
#   FROM rust:1.95 AS build
#   WORKDIR /src
#   COPY . .
#   RUN RUSTFLAGS='-C target-feature=+crt-static' \
#       cargo build --locked --release --target x86_64-unknown-linux-gnu
#   FROM scratch
#   COPY --from=build /src/target/x86_64-unknown-linux-gnu/release/publication-operator /publication-operator
#   USER 65532:65532
#   ENTRYPOINT ["/publication-operator"]
#   CMD ["run", "--listen", "0.0.0.0:8080"]

FROM scratch
COPY publication-operator /publication-operator
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/publication-operator"]
CMD ["run", "--listen", "0.0.0.0:8080"]
