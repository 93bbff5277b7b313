# timerd in a container: one process, PID 1, not root, nothing written outside of /data.
#
#     docker build -t timerd:dev .        (--build-arg BASE=... for another base)
#     docker run -v timerd:/data -p 127.0.0.1:7400:7400 -e TIMERD_INSECURE=true timerd:dev
#
# BASE is any image with Python 3.11 or newer and its venv module. Wheels in build/wheels are taken from there, and then
# nothing is fetched; without them pip fetches exactly the versions of requirements.lock, each checked by its hash. A wheel
# of timerd-native among them (`make native`, on a machine like the base) is installed too: then that front door serves.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
COPY . /src
# Bytecode is made here, because nothing can be written later; times and hashes do not depend on when.
ARG SOURCE_DATE_EPOCH=1767225600
RUN set -eu; export SOURCE_DATE_EPOCH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore; \
    python3 -m venv /tools; python3 -m venv --without-pip /opt/timerd; \
    pip="/tools/bin/pip --quiet --python /opt/timerd/bin/python install --no-compile"; \
    if ls /src/build/wheels/*.whl >/dev/null 2>&1; then \
      pip="$pip --no-index --find-links /src/build/wheels"; own=/src/build/wheels/timerd-*.whl; else own=/src; fi; \
    for native in /src/build/wheels/timerd_native-*.whl; do [ ! -e "$native" ] || own="$own $native"; done; \
    $pip --require-hashes --only-binary :all: --requirement /src/requirements.lock; \
    $pip --no-deps $own; \
    find /opt/timerd -depth -type d -path '*/numpy/*' -name tests -exec rm -rf {} +; \
    find /opt/timerd -name __pycache__ -prune -exec rm -rf {} +; \
    /opt/timerd/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/timerd/lib; \
    find /opt/timerd -name direct_url.json -delete; \
    find /opt/timerd -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +; \
    install -d -m 700 -o 65532 -g 65532 /empty

FROM ${BASE}
ARG VERSION=dev
LABEL org.opencontainers.image.title=timerd \
      org.opencontainers.image.description="A durable timer service" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=${VERSION}
COPY --from=build /opt/timerd /opt/timerd
# Its owner goes over to a named volume when that is used for the first time.
COPY --from=build --chown=65532:65532 /empty /data
ENV PATH=/opt/timerd/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TIMERD_DATA=/data \
    TIMERD_LISTEN=0.0.0.0:7400 \
    TIMERD_LOG_FORMAT=json
USER 65532:65532
WORKDIR /data
VOLUME /data
EXPOSE 7400
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["timerd", "health"]
ENTRYPOINT ["timerd"]
CMD ["serve"]
