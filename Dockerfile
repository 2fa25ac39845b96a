# syntax=docker/dockerfile:1
# The runtime and its plugins, run by the Node that the repository names. Built in one stage and run in another, without
# npm's cache, development packages or root's rights.
ARG NODE_VERSION=24.18.1

FROM node:${NODE_VERSION}-bookworm-slim AS build
WORKDIR /opt/sluice
COPY package.json package-lock.json ./
COPY sdk/package.json sdk/
COPY engine/package.json engine/
COPY iceberg/package.json iceberg/
COPY runtime/package.json runtime/
COPY plugins/analytics/package.json plugins/analytics/
COPY plugins/compute/package.json plugins/compute/
COPY plugins/connectors/package.json plugins/connectors/
COPY plugins/dashboard/package.json plugins/dashboard/
COPY plugins/lookup/package.json plugins/lookup/
COPY plugins/object-store/package.json plugins/object-store/
COPY plugins/realtime/package.json plugins/realtime/
COPY plugins/timeseries/package.json plugins/timeseries/
COPY runtime/bin runtime/bin
# The image's own Node is the pinned one, so the one from npm is left out.
RUN npm ci --omit=dev --no-audit --no-fund --workspace runtime --include-workspace-root=false \
  && rm -rf node_modules/node-linux-* node_modules/.cache
COPY sdk sdk
COPY engine engine
COPY iceberg iceberg
COPY plugins plugins
COPY runtime runtime

FROM node:${NODE_VERSION}-bookworm-slim
ENV NODE_ENV=production
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/sluice sluice \
  && install -d -o sluice -g sluice -m 0700 /var/lib/sluice/data /var/lib/sluice/secrets /var/lib/sluice/analytics \
  && install -d -o root -g root -m 0755 /etc/sluice
WORKDIR /opt/sluice
COPY --from=build --chown=root:root /opt/sluice /opt/sluice
COPY --chown=root:root deploy/sluice/sluice.yaml /etc/sluice/sluice.yaml
USER 10001:10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8080/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# SIGTERM drains: no new work, commits under way end.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "/opt/sluice/runtime/bin/sluice.js"]
CMD ["start", "--config", "/etc/sluice/sluice.yaml"]
