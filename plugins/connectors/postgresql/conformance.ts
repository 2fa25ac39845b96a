/**
 * What the conformance suite needs to try this connector: a source that it may fill, break and take away. The suite
 * writes through `sql`, as the source's owner does, and reads through the connector, as `settings` says.
 */
import type { ConnectorState } from '@sluice/sdk'
import type { Settings } from './settings.ts'
import { startCluster, TLS_NAME } from './source-server.ts'

export interface ConnectorFixture {
  readonly settings: Settings
  /** Settings that fail at a step of `check`, by its name; `dns` is a name that the host must not resolve. */
  readonly broken: Readonly<Record<'dns' | 'tcp' | 'tls' | 'auth' | 'privileges', Settings>>
  /** The schema that tables are made in. */
  readonly schema: string
  /** Statements run by the owner of the source, in one transaction. */
  sql(text: string): Promise<readonly Readonly<Record<string, unknown>>[]>
  /** Lets the connector's login read a table that `sql` has made. */
  grant(table: string): Promise<void>
  /** Leaves a transaction open that has run `sql`, until the function that it resolves to is called. */
  hold(sql: string): Promise<() => Promise<void>>
  /** How many sessions the connector has at the source. */
  sessions(): Promise<number>
  /** The state with its cursor far ahead of every row; null where this state goes by no cursor. */
  future(state: ConnectorState): ConnectorState | null
  /** Cuts all of the connector's connections at once. */
  breakNetwork(): Promise<void>
  restart(): Promise<void>
  stop(): Promise<void>
}

/** Checks that this connector does not pass, each with its reason: it captures no log of changes. */
export const waivers = ['C28', 'C29', 'C30'].map((check) => ({
  check,
  reason: 'The mode cdc is not declared.',
  issue: null,
  expires: '2027-12-31',
}))

export async function start(): Promise<ConnectorFixture> {
  const source = await startCluster()
  const { settings } = source
  await source.sql(`CREATE ROLE sees_nothing LOGIN PASSWORD 'open sesame'`)
  const own = `usename = '${settings.user}'`
  return {
    settings,
    broken: {
      dns: { ...settings, host: 'absent.sluice.test' },
      // The discard port: nothing listens there on a machine that tests run on.
      tcp: { ...settings, port: 9 },
      tls: { ...settings, ssl_mode: 'verify-full' },
      auth: { ...settings, password: `not ${settings.password}` },
      privileges: { ...settings, user: 'sees_nothing', password: 'open sesame' },
    },
    schema: 'public',
    sql: source.sql,
    grant: async (table) => {
      await source.sql(`GRANT SELECT ON ${table} TO ${settings.user}`)
    },
    hold: async (sql) => {
      const session = await source.session()
      await session.query(`BEGIN; ${sql}`)
      return async () => {
        await session.query('COMMIT')
      }
    },
    sessions: async () => (await source.sql(`SELECT pid FROM pg_stat_activity WHERE ${own}`)).length,
    future: (state) =>
      state.value['strategy'] === 'cursor'
        ? { ...state, value: { ...state.value, position: FUTURE, from: FUTURE } }
        : null,
    breakNetwork: async () => {
      await source.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${own}`)
    },
    restart: source.restart,
    stop: source.stop,
  }
}

/** The name that the server's certificate is made out to, for hosts that can resolve it to 127.0.0.1. */
export const tlsName = TLS_NAME

const FUTURE = '9000-01-01 00:00:00+00'
