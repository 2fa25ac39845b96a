/** A database to read from, for tests and for the conformance suite, on the server that SLUICE_TEST_MARIADB_URL names. */
import { randomBytes } from 'node:crypto'
import { sourceHost } from '../postgresql/source-host.ts'
import { openSession, type Session, type SmallRow } from './session.ts'
import { parseSettings, type Settings } from './settings.ts'
import { quoteName, quoteText } from './sql.ts'

export interface SourceServer {
  /** Of a login that may read what is in its database, and sees others' transactions. */
  readonly settings: Settings & { readonly port: number; readonly password: string }
  /** One statement after the other, as the owner of the server. */
  sql(...statements: readonly string[]): Promise<readonly SmallRow[]>
  /** A further session of the owner, to hold transactions open with; closed by `stop` at the latest. */
  session(): Promise<Session>
  stop(): Promise<void>
}

export async function startSource(): Promise<SourceServer> {
  const url = process.env['SLUICE_TEST_MARIADB_URL']
  if (!url) throw new Error('SLUICE_TEST_MARIADB_URL names no server: npm run test:stack -- mariadb starts one')
  const { hostname, port, username, password } = new URL(url)
  const owner = {
    ...{ host: hostname, port: Number(port || 3306), database: '', ssl_mode: 'disable' as const },
    ...{ user: decodeURIComponent(username), password: decodeURIComponent(password) },
  }
  const tag = randomBytes(4).toString('hex')
  const database = `sluice_source_${tag}`
  const reader = { user: `sluice_reader_${tag}`, password: randomBytes(12).toString('hex') }
  const ended = new AbortController()
  const way = {
    source: { ...parseSettings({ ...owner, database: 'mysql' }), database: 'mysql' },
    host: sourceHost({ allowsCleartextPassword: true }),
    sessions: new Set<Session>(),
    moment: null,
  }
  let isMade = false
  const session = async (): Promise<Session> => {
    const opened = await openSession(way, ended.signal)
    // An owner writes as servers are set up to take it.
    await opened.run(`SET SESSION sql_mode = DEFAULT, max_statement_time = 0`)
    // The first session makes it.
    if (isMade) await opened.run(`USE ${quoteName(database)}`)
    return opened
  }
  const main = await session()
  let turn: Promise<unknown> = Promise.resolve()
  const sql = async (...statements: readonly string[]): Promise<readonly SmallRow[]> => {
    const run = turn.then(async () => {
      let last: readonly SmallRow[] = []
      for (const statement of statements) last = await main.query(statement)
      return last
    })
    // Told to whoever asked for it; the next one goes on.
    turn = run.catch(() => undefined)
    return run
  }
  const user = `${quoteText(reader.user)}@'%'`
  await sql(
    `CREATE DATABASE ${quoteName(database)} CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `USE ${quoteName(database)}`,
    `CREATE USER ${user} IDENTIFIED BY ${quoteText(reader.password)}`,
    `GRANT PROCESS ON *.* TO ${user}`,
  )
  isMade = true
  return {
    settings: { host: owner.host, port: owner.port, database, ...reader, ssl_mode: 'prefer' },
    sql,
    session,
    stop: async () => {
      await sql(`DROP DATABASE ${quoteName(database)}`, `DROP USER ${user}`)
      await Promise.all([...way.sessions].map((one) => one.close()))
      ended.abort()
    },
  }
}
