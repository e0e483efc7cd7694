# The interceptor's released image: the release's own binary, on the base of
# ../Dockerfile. GoReleaser lays the binaries out by platform.
FROM gcr.io/distroless/static-debian12:nonroot
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/interceptor /interceptor
USER 65532:65532
ENTRYPOINT ["/interceptor"]
