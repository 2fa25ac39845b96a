import { type Command, type CommandCall, segment } from './command.ts'
import { checkLines, followRun, productLine, type RunAnswer } from './run-progress.ts'
import { textTable } from './text-table.ts'

interface LoggedRun extends RunAnswer {
  readonly kind: string
  readonly trigger: string
  readonly attempt: number
  readonly created_at: string
  readonly log: readonly { readonly at: string; readonly level: string; readonly message: string }[]
}

const TABLES = ['table', 'state', 'read', 'written']

export const RUN_COMMANDS: Readonly<Record<string, Command>> = {
  cancel: {
    usage: 'cancel RUN',
    summary: 'end a run; what it has committed stays',
    remote: true,
    run: (call) => asked(call, 'cancel'),
  },
  retry: {
    usage: 'retry RUN',
    summary: 'queue a run of the same kind again',
    remote: true,
    run: (call) => asked(call, 'retry'),
  },
  sync: {
    usage: 'sync CONNECTION',
    summary: 'ingest now, and wait for the end',
    flags: { 'no-wait': 'only start it' },
    remote: true,
    async run(call) {
      const client = await call.client()
      const name = segment(call, 0, 'CONNECTION')
      return queuedRun(call, name, await client.request('POST', `/api/v1/connections/${name}/sync`))
    },
  },
  backfill: {
    usage: 'backfill CONNECTION [SCHEMA.TABLE...]',
    summary: 'read tables whole again, all or those, and wait for the end',
    flags: { 'no-wait': 'only start it', withdraw: 'ask for no table any more' },
    remote: true,
    async run(call) {
      const client = await call.client()
      const name = segment(call, 0, 'CONNECTION')
      if (call.args.flags['withdraw']) {
        await client.request('DELETE', `/api/v1/connections/${name}/backfill`)
        return call.args.flags['json'] ? {} : 'No table is asked for any more.'
      }
      const tables = call.words.slice(1)
      const body = tables.length === 0 ? {} : { tables }
      return queuedRun(call, name, await client.request('POST', `/api/v1/connections/${name}/backfill`, body))
    },
  },
  logs: {
    usage: 'logs [RUN]',
    summary: 'the newest runs, or progress and log lines of one',
    flags: { follow: 'wait for the end of the run' },
    remote: true,
    async run(call) {
      const client = await call.client()
      if (call.words.length === 0) return newestRuns(call)
      const path = `/api/v1/ingestion/${segment(call, 0, 'RUN')}`
      if (call.args.flags['follow']) await followRun(client, call.words[0] as string, null)
      const run = (await client.request('GET', path)) as LoggedRun
      if (call.args.flags['json']) return run
      const lines = run.log.map(({ at, level, message }) => `${at}  ${level.padEnd(5)}  ${message}`)
      const error = run.error ? [`${run.error.code}: ${run.error.message}`, run.error.remedy ?? ''].filter(Boolean) : []
      const head = `${run.kind} ${run.id}: ${run.state}, attempt ${run.attempt}`
      return [head, tablesOf(run), ...lines, ...error, ...checkLines(run)].filter((part) => part !== '').join('\n')
    },
  },
}

/**
 * What is shown of a run that was just queued: at its end, unless nobody waits. `connection`: that it reads; `none`: what is said of a run
 * without tables.
 */
export async function queuedRun(
  call: CommandCall,
  connection: string | null,
  answer: unknown,
  none?: string,
): Promise<unknown> {
  const queued = answer as RunAnswer
  if (call.args.flags['no-wait']) return call.args.flags['json'] ? queued : `The run ${queued.id} is queued.`
  const expected = connection === null ? null : await expectedRows(call, connection)
  return shownRun(call, await followRun(await call.client(), queued.id, expected), none)
}

async function asked(call: CommandCall, what: 'cancel' | 'retry'): Promise<unknown> {
  const path = `/api/v1/ingestion/${segment(call, 0, 'RUN')}/${what}`
  const run = (await (await call.client()).request('POST', path)) as RunAnswer
  return call.args.flags['json'] ? run : `The run ${run.id} is ${run.state}.`
}

async function newestRuns(call: CommandCall): Promise<unknown> {
  const { data } = (await (await call.client()).request('GET', '/api/v1/ingestion?limit=20')) as { data: LoggedRun[] }
  if (call.args.flags['json']) return data
  const rows = data.map(({ id, kind, trigger, state, created_at }) => [id, kind, trigger, state, created_at])
  return textTable(['run', 'kind', 'trigger', 'state', 'created'], rows)
}

const NO_TABLE = 'Nothing was ingested: no deployed product reads from this connection.'

export function shownRun(call: CommandCall, run: RunAnswer, none = NO_TABLE): unknown {
  if (call.args.flags['json']) return run
  if (run.tables.length === 0) return none
  const products = run.products.map(productLine)
  return [tablesOf(run), ...products, ...checkLines(run)].filter((part) => part !== '').join('\n')
}

function tablesOf(run: RunAnswer): string {
  if (run.tables.length === 0) return ''
  const own = run.tables.map(({ name, state, rows_read, rows_written }) => [name, state, rows_read, rows_written])
  if (run.replay !== true) return textTable(TABLES, own)
  const more = run.tables.map(({ rows_superseded, rows_rejected }) => [rows_superseded ?? 0, rows_rejected ?? 0])
  return textTable(
    [...TABLES, 'superseded', 'stay'],
    own.map((row, at) => [...row, ...(more[at] ?? [])]),
  )
}

/** What the source believes it has; without it there is no time left to show. */
async function expectedRows(call: CommandCall, name: string): Promise<number | null> {
  if (process.stderr.isTTY !== true) return null
  try {
    const client = await call.client()
    const found = (await client.request('GET', `/api/v1/connections/${name}/discover`)) as {
      readonly tables: readonly { readonly estimated_rows: number | null }[]
    }
    return found.tables.reduce((sum, table) => sum + (table.estimated_rows ?? 0), 0)
  } catch {
    return null
  }
}
