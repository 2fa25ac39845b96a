/** The listener with tokens that are texts: whoever has one is let in, and there is no product and no catalogue behind it. */
import pg from 'pg'
import { PasswordAuthenticator } from '../auth/service-passwords.ts'
import type { Principal } from '../flow.ts'
import { LocalRateLimiter } from '../http/rate-limit.ts'
import type { QueriesDeps } from '../operations/queries/deps.ts'
import { newPassword, verifierOf } from '../registry/scram-verifiers.ts'
import type { PresentedPassword } from '../registry/service-passwords.ts'
import { AskedTypes } from './catalogue/asked-types.ts'
import { CatalogueServer } from './catalogue/catalogue-server.ts'
import { type RunningWire, startWire, type WireOptions } from './listener.ts'

export const logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => logger }
export const OFTEN = { ratePerS: 10_000, burst: 10_000 }
const LASTING = Date.UTC(2100, 0)

export function person(tenant: string, tokenExpiresAtMs = LASTING): Principal {
  return {
    issuer: 'https://issuer.test',
    subject: 'vera',
    tenant,
    groups: ['svc-viewers'],
    isAdmin: false,
    isDeveloper: false,
    isViewer: true,
    claimedClearance: null,
    email: null,
    tokenExpiresAtMs,
    tokenIssuedAtMs: 0,
  }
}

/** Tokens that are good, and whose. */
export const tokens = new Map<string, Principal>()

/** Service passwords that are there, by their users. */
export const servicePasswords = new Map<string, PresentedPassword>()

/** Tenants that are served no more. */
export const closedTenants = new Set(['gone'])

const isServed = (tenant: string): boolean => !closedTenants.has(tenant)

const SECRET = Buffer.alloc(32, 1)

const passwordStore = {
  find: async (user: string) => servicePasswords.get(user) ?? null,
  async recordUse() {},
}

/** Makes one, and returns the password itself. */
export async function makePassword(id: string, tenant: string, expiresAt: Date | null = null): Promise<string> {
  const password = newPassword()
  servicePasswords.set(id, {
    id,
    tenant,
    name: 'dashboards',
    group: 'sales',
    clearance: null,
    createdBy: { issuer: 'https://issuer.test', subject: 'root' },
    createdAt: new Date(0),
    expiresAt,
    lastUsedAt: null,
    isUseDue: true,
    verifier: await verifierOf(password),
  })
  return password
}

export const authoritiesOf = (): WireOptions['authorities'] => ({
  authenticator: {
    cached: () => null,
    async verify(token) {
      const principal = tokens.get(token)
      if (principal === undefined) throw new Error('a secret reason')
      return principal
    },
  },
  passwords: new PasswordAuthenticator(passwordStore, SECRET),
  good: {
    password: async (users) => new Set(users.filter((user) => servicePasswords.has(user))),
    key: async (ids) => new Set(ids.filter((id) => [...tokens.values()].some(({ subject }) => subject === id))),
    tenant: async (slugs) => new Set(slugs.filter(isServed)),
  },
  standingOf: (tenant) => ({ tier: 'standard', status: isServed(tenant) ? 'active' : 'inactive' }),
  rateLimits: { tiers: { free: OFTEN, standard: OFTEN, enterprise: OFTEN }, address: OFTEN },
  rateLimiter: new LocalRateLimiter(),
  addresses: new LocalRateLimiter(),
})

const catalogue = new CatalogueServer({
  dataDirectory: '/nowhere',
  mostSets: 1,
  idleMs: 600_000,
  tablesOf: async () => [],
  logger,
})

export async function openWire(change: Partial<WireOptions> = {}): Promise<RunningWire> {
  return startWire({
    host: '127.0.0.1',
    port: 0,
    tls: null,
    tlsEndPoint: null,
    maxConnections: 100,
    maxConnectionsPerTenant: 3,
    maxConnectionsPerAddress: null,
    loginMs: 60_000,
    idleMs: 120_000,
    serverVersion: '18.0',
    authorities: authoritiesOf(),
    plans: { platform: {} as QueriesDeps, catalogue, types: new AskedTypes(catalogue) },
    logger,
    count: { connected() {}, login() {}, statement() {} },
    ...change,
  })
}

export function clientOf(
  to: RunningWire,
  password: string,
  database = 'acme',
  ssl?: pg.ClientConfig['ssl'],
  user = 'vera',
): pg.Client {
  const own = ssl === undefined ? {} : { ssl }
  const client = new pg.Client({ host: '127.0.0.1', port: to.port, user, database, password, ...own })
  client.on('error', () => undefined)
  return client
}
