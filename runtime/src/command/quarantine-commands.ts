import { type Command, type CommandCall, segment, word } from './command.ts'
import { queuedRun } from './run-commands.ts'
import { textTable } from './text-table.ts'

interface QuarantinedAnswer {
  readonly id: string
  readonly table: string
  readonly column: string | null
  readonly reason: string
  readonly key: Readonly<Record<string, string | null>> | null
  readonly raw: string | null
  readonly carried?: boolean
  readonly replayable?: boolean
  readonly created_at: string
}

const pathOf = (call: CommandCall) => `/api/v1/connections/${segment(call, 0, 'CONNECTION')}/quarantine`

export const QUARANTINE_COMMANDS: Readonly<Record<string, Command>> = {
  'quarantine list': {
    usage: 'quarantine list CONNECTION [SCHEMA.TABLE]',
    summary: 'rows that could not be carried, newest first, of the tables that you may read',
    remote: true,
    run: (call) => listed(call, call.words[1]),
  },
  'quarantine replay': {
    usage: 'quarantine replay CONNECTION [SCHEMA.TABLE [ROW...]] [--limit 100]',
    summary: 'try rows again by the columns of today, all or those, and wait for the end',
    flags: { limit: 'of each table the oldest so many', 'no-wait': 'only start it' },
    remote: true,
    async run(call) {
      const [, table, ...ids] = call.words
      const { limit } = call.args.flags
      const body = {
        ...(table === undefined ? {} : { table }),
        ...(ids.length === 0 ? {} : { ids }),
        ...(limit === undefined ? {} : { limit: Number(limit) }),
      }
      const client = await call.client()
      const queued = await client.request('POST', `${pathOf(call)}/replay`, body)
      return queuedRun(call, null, queued, 'No row was tried: no table has any that can be tried again.')
    },
  },
  'quarantine discard': {
    usage: 'quarantine discard CONNECTION SCHEMA.TABLE [ROW...]',
    summary: 'give up rows of a table, all or those; the table goes on without them',
    remote: true,
    async run(call) {
      const [, , ...ids] = call.words
      const body = { table: word(call, 1, 'SCHEMA.TABLE'), ...(ids.length === 0 ? {} : { ids }) }
      const client = await call.client()
      const answer = (await client.request('POST', `${pathOf(call)}/discard`, body)) as { readonly discarded: number }
      return call.args.flags['json'] ? answer : `${answer.discarded} rows were given up.`
    },
  },
  'connection quarantine': {
    usage: 'connection quarantine NAME [--table schema.table]',
    summary: 'the same as quarantine list',
    flags: { table: 'of this table alone' },
    remote: true,
    run: (call) => listed(call, call.args.flags['table']),
  },
}

async function listed(call: CommandCall, table: string | undefined): Promise<unknown> {
  const query = table === undefined ? '' : `?table=${encodeURIComponent(table)}`
  const found = (await (await call.client()).list(`${pathOf(call)}${query}`)) as QuarantinedAnswer[]
  if (call.args.flags['json']) return found
  const rows = found.map((one) => [
    one.created_at,
    one.table,
    one.column,
    one.key === null ? null : JSON.stringify(one.key),
    one.raw,
    one.carried ? 'the value' : 'the row',
    one.reason,
    one.replayable ? one.id : null,
  ])
  return textTable(['at', 'table', 'column', 'key', 'value', 'left out', 'reason', 'can be replayed'], rows)
}
