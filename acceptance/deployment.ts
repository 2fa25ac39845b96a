/**
 * The deployment under test. `SLUICE_ACCEPTANCE_URL` names a running one, with `SLUICE_ACCEPTANCE_TOKENS` (a command
 * that prints a token for a tenant, group and user) and `SLUICE_ACCEPTANCE_SOURCE` (a PostgreSQL to make databases
 * in). `SLUICE_ACCEPTANCE_KEYS`, the folder of a runtime's keys, spares the half second of processor time that the command
 * takes for each token. Without an address, an embedded one is started on a folder of its own. Everything after that goes over HTTP.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import pg from 'pg'
import { parseArguments } from '../runtime/src/command/arguments.ts'
import { tokenFor } from '../runtime/src/command/token-command.ts'
import { type ChildOf, startEmbeddedRuntime } from './embedded-runtime.ts'

const run = promisify(execFile)
const TOKEN_TTL_S = 3_600

type Login = pg.ClientConfig & { readonly host: string; readonly port: number; readonly database: string }

export interface Deployment {
  readonly url: string
  /** A superuser's login to a database that nobody else uses, for making tables in it. */
  readonly source: Login
  /** Of the same flags the same token, for as long as the deployment is open. */
  token(flags: readonly string[]): Promise<string>
  /** As an operator gets one: `sluice token` prints it. */
  printedToken(flags: readonly string[]): Promise<string>
  /** Kills the runtime, and starts it again at the same address. Null where it was not started here. */
  readonly crash: (() => Promise<void>) | null
  /** The processes that the runtime has made. Null where it was not started here. */
  readonly children: (() => readonly ChildOf[]) | null
  stop(): Promise<void>
}

export async function openDeployment(): Promise<Deployment> {
  const started = process.env['SLUICE_ACCEPTANCE_URL'] === undefined ? await startEmbeddedRuntime() : null
  const env = started?.env ?? process.env
  const server = loginOf(env['SLUICE_ACCEPTANCE_SOURCE'] ?? 'postgresql://postgres@127.0.0.1:5432/postgres')
  const database = `acceptance_${randomBytes(6).toString('hex')}`
  await onServer(server, `CREATE DATABASE ${database}`)
  const [command = '', ...words] = (env['SLUICE_ACCEPTANCE_TOKENS'] ?? '').split(' ')
  const printed = async (flags: readonly string[]) => (await run(command, [...words, ...flags])).stdout.trim()
  const keys = env['SLUICE_ACCEPTANCE_KEYS']
  const make = (flags: readonly string[]) =>
    keys ? tokenFor(parseArguments(flags), keys, TOKEN_TTL_S) : printed(flags)
  const tokens = new Map<string, Promise<string>>()
  return {
    url: env['SLUICE_ACCEPTANCE_URL'] as string,
    source: { ...server, database },
    token(flags) {
      const known = tokens.get(flags.join(' ')) ?? make(flags)
      tokens.set(flags.join(' '), known)
      return known
    },
    printedToken: printed,
    crash: started?.crash ?? null,
    children: started?.children ?? null,
    async stop() {
      await onServer(server, `DROP DATABASE ${database} WITH (FORCE)`)
      await started?.stop()
    },
  }
}

function loginOf(address: string): Login {
  const { hostname, port, username, password, pathname } = new URL(address)
  return {
    host: hostname,
    port: Number(port || 5432),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: pathname.slice(1),
  }
}

async function onServer(login: Login, statement: string): Promise<void> {
  const client = new pg.Client(login)
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
