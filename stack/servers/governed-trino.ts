/**
 * A runtime, and a Trino that it governs: people log in to Trino with the runtime's tokens, and Trino asks the
 * runtime's policy endpoint before everything it does. What runs here is what docs/guides/trino.md tells operators to set.
 */
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { issueToken, MAX_TOKEN_TTL_S } from '../../runtime/src/auth/embedded-issuer.ts'
import { ENGINE_LOGIN_CLAIM, ENGINE_USER_PATTERN } from '../../runtime/src/auth/engine-user.ts'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { runTool } from '../cache.ts'
import { machineVersion } from '../machine-version.ts'
import type { ServerKind, StackServer } from '../server.ts'
import { createCatalog, sqlCatalog } from '../trino/catalogs.ts'
import { type RunningRuntime, startRuntimeOnPostgres } from './runtime.ts'
import { type RunningTrino, startTrino, trino } from './trino.ts'

export const governedTrino: ServerKind = {
  name: 'a runtime and the Trino that it governs',
  variable: 'SLUICE_TEST_GOVERNED_TRINO_URL',
  version: async () => `${await trino.version?.()} ${await machineVersion('openssl', ['version'])}`,
  start: startGovernedTrino,
}

export interface RunningGovernedTrino extends StackServer {
  /** Of Trino, over HTTPS. */
  readonly url: string
  readonly runtime: RunningRuntime
  /** A file with what signed Trino's certificate. */
  readonly authorityFile: string
  /** The folder of the runtime's lake. */
  readonly lakeFolder: string
}

export async function startGovernedTrino(folder: string): Promise<RunningGovernedTrino> {
  await mkdir(join(folder, 'trino'), { recursive: true })
  const [server, client] = await Promise.all([certificate(folder, 'runtime'), certificate(folder, 'trino')])
  const [port, trinoPort] = await Promise.all([freePort(), freePort()])
  const tokenFile = join(folder, 'platform-token')
  const runtime = await startRuntimeOnPostgres(join(folder, 'runtime'), {
    // By this login the runtime looks at people's statements. Catalogs are made by the tests: it is told of no real one.
    SLUICE_COMPUTE__TRINO__URL: `https://127.0.0.1:${trinoPort}`,
    SLUICE_COMPUTE__TRINO__TOKEN_FILE: tokenFile,
    SLUICE_COMPUTE__TRINO__CA_FILE: client.cert,
    SLUICE_COMPUTE__TRINO__CATALOG__NONE: 'none',
    SLUICE_LIMITS__CPU_SECONDS__FREE: '1',
    SLUICE_TRINO__POLICY_PORT: String(port),
    SLUICE_TRINO__POLICY_CERT_FILE: server.cert,
    SLUICE_TRINO__POLICY_KEY_FILE: server.key,
    SLUICE_TRINO__POLICY_CLIENT_CA_FILE: client.cert,
  })
  const policy = `https://127.0.0.1:${port}`
  let trino: RunningTrino
  try {
    const data = join(folder, 'runtime/data')
    const token = await issueToken(data, { role: 'admin' }, { ttlS: MAX_TOKEN_TTL_S })
    await writeFile(tokenFile, token, { mode: 0o600 })
    trino = await startGoverned(join(folder, 'trino'), runtime, policy, [client.both, server.cert], trinoPort)
  } catch (error) {
    await runtime.stop()
    throw error
  }
  const lakeFolder = join(folder, 'runtime/data/lake')
  return {
    env: {
      ...runtime.env,
      SLUICE_TEST_GOVERNED_TRINO_URL: trino.url,
      NODE_EXTRA_CA_CERTS: client.cert,
      SLUICE_TEST_TRINO_POLICY_URL: policy,
      SLUICE_TEST_TRINO_POLICY_CERTIFICATE: client.both,
      SLUICE_TEST_TRINO_POLICY_TRUSTED: server.cert,
      SLUICE_TEST_TRINO_LAKE_URL: jdbcUrl(runtime),
      SLUICE_TEST_TRINO_LAKE_FOLDER: lakeFolder,
    },
    url: trino.url,
    runtime,
    authorityFile: client.cert,
    lakeFolder,
    async stop() {
      await trino.stop()
      await runtime.stop()
    },
  }
}

export function jdbcUrl({ registry: { host, port, database } }: RunningRuntime): string {
  return `jdbc:postgresql://${host}:${port}/${database}`
}

/** The statement that makes a tenant's catalog over the runtime's own; Trino has the login in `lakeLogin`'s variables. */
export function createLakeCatalog(tenant: string, url: string, lakeFolder: string): string {
  const name = `lakehouse_${tenant}`
  const login = { user: `\${ENV:LAKE_USER}`, password: `\${ENV:LAKE_PASSWORD}` }
  return createCatalog(name, sqlCatalog({ ...login, url, name, warehouse: `file://${lakeFolder}` }))
}

export function lakeLogin({ registry }: RunningRuntime): Readonly<Record<string, string>> {
  return { LAKE_USER: registry.user, LAKE_PASSWORD: registry.password }
}

async function startGoverned(
  folder: string,
  runtime: RunningRuntime,
  policy: string,
  [keys, trusted]: readonly [string, string],
  port: number,
): Promise<RunningTrino> {
  const running = await startTrino({
    folder,
    port: await freePort(),
    config: {
      'http-server.authentication.type': 'JWT',
      'http-server.authentication.jwt.key-file': `${runtime.url}/oidc/jwks`,
      'http-server.authentication.jwt.required-issuer': `${runtime.url}/oidc`,
      'http-server.authentication.jwt.required-audience': 'sluice',
      'http-server.authentication.jwt.principal-field': ENGINE_LOGIN_CLAIM,
      'http-server.authentication.jwt.user-mapping.pattern': ENGINE_USER_PATTERN,
      // Over plain HTTP Trino would believe whatever name a client gives.
      'http-server.authentication.allow-insecure-over-http': 'false',
      'http-server.https.enabled': 'true',
      'http-server.https.port': String(port),
      'http-server.https.keystore.path': keys,
      'query.max-run-time': '15m',
      'query.client.timeout': '1m',
      'internal-communication.shared-secret': randomBytes(32).toString('hex'),
    },
    accessControl: {
      'access-control.name': 'opa',
      'opa.policy.uri': `${policy}/allow`,
      'opa.policy.batched-uri': `${policy}/batch`,
      'opa.policy.row-filters-uri': `${policy}/row-filters`,
      'opa.policy.batch-column-masking-uri': `${policy}/column-masks`,
      'opa.http-client.key-store-path': keys,
      'opa.http-client.trust-store-path': trusted,
      'opa.http-client.connect-timeout': '5s',
      'opa.http-client.request-timeout': '30s',
      'opa.log-requests': 'false',
      'opa.log-responses': 'false',
    },
    env: lakeLogin(runtime),
  })
  return { ...running, url: `https://127.0.0.1:${port}` }
}

/** Signed by itself, for 127.0.0.1: `both` holds key and certificate. */
async function certificate(folder: string, name: string) {
  const [key, cert, both] = ['key', 'cert', 'both'].map((part) => join(folder, `${name}.${part}.pem`)) as [
    string,
    string,
    string,
  ]
  const subject = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1']
  const fresh = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
  await runTool('openssl', [...fresh, ...subject, '-keyout', key, '-out', cert])
  await writeFile(both, `${await readFile(key, 'utf8')}${await readFile(cert, 'utf8')}`, { mode: 0o600 })
  return { key, cert, both }
}

export default governedTrino
