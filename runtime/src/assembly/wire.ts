/** The listener for clients of PostgreSQL, as it is configured, and the PostgreSQL that has the catalogue for it. */
import { readFile } from 'node:fs/promises'
import { createSecureContext, type SecureContext } from 'node:tls'
import { type Logger, SluiceError } from '@sluice/sdk'
import { PasswordAuthenticator, passwordStoreIn } from '../auth/service-passwords.ts'
import { tlsEndPoint } from '../auth/tls-end-point.ts'
import type { Config } from '../config.ts'
import { findBinaries } from '../database/postgres-binaries.ts'
import { LocalRateLimiter } from '../http/rate-limit.ts'
import { describedTables } from '../operations/queries/information-schema.ts'
import { goodKeys } from '../registry/application-keys.ts'
import { goodPasswords } from '../registry/service-passwords.ts'
import { servedTenants } from '../registry/tenants.ts'
import { AskedTypes } from '../wire/catalogue/asked-types.ts'
import { CatalogueServer } from '../wire/catalogue/catalogue-server.ts'
import { type RunningWire, startWire, type WireCounts } from '../wire/listener.ts'
import type { Authorities } from '../wire/session/authority.ts'
import type { Platform } from './platform.ts'
import { cursorKey } from './storage.ts'

export interface WireDoor {
  readonly config: Config
  readonly platform: Platform
  readonly authorities: Omit<Authorities, 'addresses' | 'passwords' | 'good'>
  readonly logger: Logger
  readonly count: WireCounts
}

/** Null where no port is configured: then nobody needs to load this file. Throws CONFIG `invalid_config` where it could let nobody in, or cannot listen. */
export async function openWire({
  config,
  platform,
  authorities,
  logger,
  count,
}: WireDoor): Promise<RunningWire | null> {
  const { wire, limits } = config
  if (wire.port === undefined) return null
  const tls = await wireTls(wire)
  const catalogue = new CatalogueServer({
    dataDirectory: config.data_dir,
    mostSets: wire.catalogues,
    idleMs: wire.catalogue_idle_ms,
    tablesOf: (call) => describedTables(platform, call),
    logger,
  })
  // Runtimes of one registry have this key in common, as cursors have to be good at all of them.
  const passwords = new PasswordAuthenticator(passwordStoreIn(platform.pool), await cursorKey(config.secrets_dir))
  const running = await startWire({
    host: wire.host,
    port: wire.port,
    tls: tls?.context ?? null,
    tlsEndPoint: tls?.endPoint ?? null,
    maxConnections: wire.connections,
    maxConnectionsPerTenant: wire.connections_per_tenant,
    maxConnectionsPerAddress: limits.connections_per_address,
    loginMs: wire.login_ms,
    idleMs: wire.idle_ms,
    serverVersion: catalogueVersion(),
    authorities: { ...authorities, passwords, good: goodIn(platform.pool), addresses: new LocalRateLimiter() },
    plans: { platform, catalogue, types: new AskedTypes(catalogue) },
    logger,
    count,
  }).catch((cause: unknown) => {
    throw invalid(
      `it cannot listen on ${wire.host}, port ${wire.port}`,
      'Choose another wire.port or wire.host.',
      cause,
    )
  })
  logger.info('clients of PostgreSQL are served', { host: running.host, port: running.port, tls: tls !== null })
  return {
    ...running,
    async stop(graceMs) {
      await running.stop(graceMs)
      await catalogue.close()
    },
  }
}

const goodIn = (db: Platform['pool']): Authorities['good'] => ({
  password: (ids) => goodPasswords(db, ids),
  key: (ids) => goodKeys(db, ids),
  tenant: (slugs) => servedTenants(db, slugs),
})

/** As clients know versions: `18.1`, of the PostgreSQL that is installed with the runtime. */
function catalogueVersion(): string {
  return /^[0-9]+\.[0-9]+/.exec(findBinaries(null).version)?.[0] ?? '18.0'
}

interface Tls {
  readonly context: SecureContext
  readonly endPoint: Buffer | null
}

/** Null: without. Throws CONFIG `invalid_config` where it could let nobody in. */
export async function wireTls({ host, cert_file: certFile, key_file: keyFile }: Config['wire']): Promise<Tls | null> {
  if (certFile === undefined && keyFile === undefined) {
    if (isLoopback(host)) return null
    throw invalid(
      `clients of other machines than this one (wire.host ${host}) are let in under TLS only`,
      'Set wire.cert_file and wire.key_file, or a loopback wire.host.',
    )
  }
  try {
    if (certFile === undefined || keyFile === undefined) throw new Error('one of the two is missing')
    const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')])
    return { context: createSecureContext({ cert, key, minVersion: 'TLSv1.2' }), endPoint: tlsEndPoint(cert) }
  } catch (cause) {
    throw invalid(
      'it has no certificate and key',
      'Name two readable PEM files that belong together: wire.cert_file and wire.key_file.',
      cause,
    )
  }
}

const isLoopback = (host: string): boolean => host === 'localhost' || host === '::1' || host.startsWith('127.')

function invalid(why: string, remedy: string, cause?: unknown): SluiceError {
  return new SluiceError('CONFIG', `the endpoint for clients of PostgreSQL cannot be opened: ${why}`, {
    code: 'invalid_config',
    remedy,
    ...(cause === undefined ? {} : { cause }),
  })
}
