import { readFile } from 'node:fs/promises'
import { required, UsageError } from './arguments.ts'
import { type Command, gone, segment, word } from './command.ts'
import { reasonUnread } from './failures.ts'
import { nextRun, nextSync, type ScheduleStateAnswer, type SyncAnswer } from './next-run.ts'
import { printOut } from './output.ts'
import { textTable } from './text-table.ts'

interface ConnectionAnswer {
  readonly id: string
  readonly name: string
  readonly connector_type: string
  readonly status: string
  readonly last_tested_at: string | null
  readonly next_run_at?: string | null
  readonly last_run?: { readonly state: string } | null
  readonly schedule_state?: ScheduleStateAnswer | null
}

interface TestAnswer {
  readonly ok: boolean
  readonly latency_ms: number
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly message: string }[]
  readonly remedy?: string
}

/** Whole, where the table has room for its beginning. */
function whyNot({ checks }: TestAnswer): string {
  const failed = checks.find(({ ok }) => !ok)
  return failed === undefined ? 'the connection does not work' : `the connection does not work: ${failed.message}`
}

interface DiscoverAnswer {
  readonly tables: readonly {
    readonly schema: string
    readonly name: string
    readonly kind: string
    readonly estimated_rows: number | null
    readonly primary_key: readonly string[]
    readonly columns: readonly unknown[]
    readonly suggested_cursor: string | null
  }[]
}

interface LagAnswer extends SyncAnswer {
  readonly tables: readonly {
    readonly table: string
    readonly read_at: string | null
    readonly age_s: number | null
    readonly last_read: { readonly state: string; readonly error_code: string | null; readonly at: string } | null
  }[]
}

const HEADER = ['connection', 'type', 'status', 'tested', 'last run', 'next run', 'id']
const row = ({ id, name, connector_type, status, last_tested_at, ...runs }: ConnectionAnswer) => [
  name,
  connector_type,
  status,
  last_tested_at,
  runs.last_run?.state ?? null,
  nextRun(runs),
  id,
]

const SCHEDULE_FLAGS = {
  every: 'sync by itself so often: 15m, 24h',
  cron: 'sync by itself at these times: "0 6 * * MON-FRI"',
  'max-age': 'sync by itself when the newest sync that succeeded began so long ago: 1h',
  'max-delay': 'apply changes as they come, each after so long at most: 1s',
  'time-zone': 'whose clocks --cron goes by; default UTC',
  'catch-up': 'of times that were missed: none, one (default) or all',
} as const

/** Undefined where no flag asks for one. */
function scheduleIn({
  every,
  cron,
  'time-zone': zone,
  'max-age': maxAge,
  'max-delay': maxDelay,
  'catch-up': catchUp,
}: Readonly<Record<string, string>>) {
  const continuous = maxDelay === undefined ? undefined : { max_delay: maxDelay }
  const asked = { every, cron, max_age: maxAge, continuous, time_zone: zone, catch_up: catchUp }
  return Object.values(asked).every((value) => value === undefined) ? undefined : asked
}

/** Read and judged here, where the file has a name. What is in it is never shown: it holds a password. */
async function settingsIn(file: string): Promise<string> {
  const text = await readFile(file === '-' ? '/dev/stdin' : file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(
      `${file} cannot be read: ${reasonUnread(error)}; --config-file takes a file, or - for standard input`,
    )
  })
  if (isJsonObject(text)) return text
  throw new UsageError(`${file} is not a JSON object; it begins like {"host": "127.0.0.1", "port": 5432, …}`)
}

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}

const pathOf = (name: string) => `/api/v1/connections/${name}`

export const CONNECTION_COMMANDS: Readonly<Record<string, Command>> = {
  'connection create': {
    usage:
      'connection create NAME --config-file FILE.json [--type postgresql] [--every 15m | --cron EXPRESSION | --max-age 1h | --max-delay 1s]',
    summary: 'register a source; the file holds host, port, database, user, password, ssl_mode',
    flags: {
      'config-file': 'a JSON document; - reads it from standard input',
      type: 'default postgresql',
      ...SCHEDULE_FLAGS,
    },
    remote: true,
    async run(call) {
      const file = required(call.args, 'config-file')
      const made = (await (
        await call.client()
      ).request('POST', '/api/v1/connections', {
        name: word(call, 0, 'NAME'),
        connector_type: call.args.flags['type'] ?? 'postgresql',
        config_encrypted: await settingsIn(file),
        schedule: scheduleIn(call.args.flags),
      })) as ConnectionAnswer
      return call.args.flags['json'] ? made : textTable(HEADER, [row(made)])
    },
  },
  'connection update': {
    usage:
      'connection update NAME [--config-file FILE.json] [--name NEW] [--every 15m | --cron EXPRESSION | --max-age 1h | --max-delay 1s | --no-schedule]',
    summary:
      'rename a connection, give it new settings as a whole, or a schedule; where it leads is for its creator to change',
    flags: {
      'config-file':
        'a JSON document; - reads it from standard input; stored secrets stay where it leads to the same place',
      name: 'the new name',
      ...SCHEDULE_FLAGS,
      'no-schedule': 'sync when asked to, and only then',
    },
    remote: true,
    async run(call) {
      const { 'config-file': file, name } = call.args.flags
      const schedule = call.args.flags['no-schedule'] ? null : scheduleIn(call.args.flags)
      if (file === undefined && name === undefined && schedule === undefined) {
        throw new UsageError(
          '--config-file, --name, --every, --cron, --max-age, --max-delay or --no-schedule is needed',
        )
      }
      const path = pathOf(segment(call, 0, 'NAME'))
      const changed = (await (
        await call.client()
      ).request('PATCH', path, {
        ...(file === undefined ? {} : { config_encrypted: await settingsIn(file) }),
        ...(name === undefined ? {} : { name }),
        ...(schedule === undefined ? {} : { schedule }),
      })) as ConnectionAnswer
      return call.args.flags['json'] ? changed : textTable(HEADER, [row(changed)])
    },
  },
  'connection list': {
    usage: 'connection list',
    summary: 'the tenant’s connections, newest first',
    remote: true,
    async run(call) {
      const found = (await (await call.client()).list('/api/v1/connections')) as ConnectionAnswer[]
      return call.args.flags['json'] ? found : textTable(HEADER, found.map(row))
    },
  },
  'connection test': {
    usage: 'connection test NAME',
    summary: 'try a connection step by step; fails where a step does',
    remote: true,
    async run(call) {
      const path = `${pathOf(segment(call, 0, 'NAME'))}/test`
      const report = (await (await call.client()).request('POST', path)) as TestAnswer
      const steps = report.checks.map(({ name, ok, message }) => [name, ok ? 'ok' : 'failed', message])
      await printOut(
        call.args.flags['json'] ? JSON.stringify(report, null, 2) : textTable(['step', 'result', 'message'], steps),
      )
      if (!report.ok) throw Object.assign(new Error(whyNot(report)), { remedy: report.remedy })
      return undefined
    },
  },
  'connection discover': {
    usage: 'connection discover NAME',
    summary: 'the tables that its login may read',
    remote: true,
    async run(call) {
      const path = `${pathOf(segment(call, 0, 'NAME'))}/discover`
      const { tables } = (await (await call.client()).request('GET', path)) as DiscoverAnswer
      if (call.args.flags['json']) return tables
      const rows = tables.map((table) => [
        `${table.schema}.${table.name}`,
        table.kind,
        table.estimated_rows,
        table.columns.length,
        table.primary_key.join(', '),
        table.suggested_cursor,
      ])
      return textTable(['table', 'kind', 'rows', 'columns', 'key', 'cursor'], rows)
    },
  },
  'connection lag': {
    usage: 'connection lag NAME',
    summary: 'when each table was read last, and when the next sync begins by itself',
    remote: true,
    async run(call) {
      const path = `${pathOf(segment(call, 0, 'NAME'))}/lag`
      const lag = (await (await call.client()).request('GET', path)) as LagAnswer
      if (call.args.flags['json']) return lag
      const rows = lag.tables.map(({ table, read_at: readAt, age_s: ageS, last_read: last }) => [
        table,
        readAt,
        ageS === null ? null : `${ageS} s`,
        last && (last.error_code === null ? last.state : `${last.state}: ${last.error_code}`),
        last?.at ?? null,
      ])
      const none = `No deployed product reads from it, so that a sync reads nothing.`
      const tables = rows.length === 0 ? none : textTable(['table', 'read', 'age', 'last read', 'at'], rows)
      return [tables, ...nextSync(lag)].join('\n')
    },
  },
  'connection delete': {
    usage: 'connection delete NAME',
    summary: 'remove a connection that no product uses',
    remote: true,
    async run(call) {
      await (await call.client()).request('DELETE', pathOf(segment(call, 0, 'NAME')))
      return gone(call, `The connection ${word(call, 0, 'NAME')} is gone.`)
    },
  },
}
