import { setTimeout as sleep } from 'node:timers/promises'
import { NumbersLost, parseKeepingNumbers } from '../parsing/kept-numbers.ts'
import { everyValue, UsageError } from './arguments.ts'
import { type Command, segment, word } from './command.ts'
import { textTable } from './text-table.ts'

interface ErasureAnswer {
  readonly id: string
  readonly table: string
  readonly key_columns: readonly string[]
  readonly state: string
  readonly run_id: string
  readonly found: { readonly rows: number; readonly snapshots: Readonly<Record<string, number>> } | null
  readonly proof: {
    readonly tables: readonly string[]
    readonly products: readonly {
      readonly name: string
      readonly epoch: number
      readonly histories: readonly string[]
    }[]
    readonly quarantined: number
    readonly exports: number
  } | null
  readonly note: string
  readonly created_at: string
}

const POLL_MS = 500

export const ERASURE_COMMANDS: Readonly<Record<string, Command>> = {
  erase: {
    usage: 'erase CONNECTION SCHEMA.TABLE --key id=7 --expire-history',
    summary: 'erase a row of a source wherever it was carried to, and prove it; for administrators',
    flags: {
      key: 'column=value, once for each column of the key; or a JSON object',
      'expire-history': 'former snapshots and histories of the products may go with it; without it says which',
      'no-wait': 'only start it',
    },
    severalTimes: ['key'],
    remote: true,
    async run(call) {
      const path = `/api/v1/connections/${segment(call, 0, 'CONNECTION')}/erasures`
      const { 'expire-history': expires, 'no-wait': noWait } = call.args.flags
      const body = {
        table: word(call, 1, 'SCHEMA.TABLE'),
        key: keyOf(everyValue(call.args, 'key')),
        expire_history: expires !== undefined,
      }
      const client = await call.client('admin')
      let erasure = (await client.request('POST', path, body)) as ErasureAnswer
      while (noWait === undefined && ['queued', 'running'].includes(erasure.state)) {
        await sleep(POLL_MS)
        erasure = (await client.request('GET', `${path}/${erasure.id}`)) as ErasureAnswer
      }
      return call.args.flags['json'] ? erasure : textOf(erasure)
    },
  },
  'erase list': {
    usage: 'erase list CONNECTION',
    summary: 'rows that were erased, newest first, without their keys; for administrators',
    remote: true,
    async run(call) {
      const client = await call.client('admin')
      const found = (await client.list(
        `/api/v1/connections/${segment(call, 0, 'CONNECTION')}/erasures`,
      )) as ErasureAnswer[]
      if (call.args.flags['json']) return found
      const rows = found.map(({ created_at, table, key_columns, state, run_id, id }) => [
        ...[created_at, table, key_columns.join(', '), state, run_id, id],
      ])
      return textTable(['at', 'table', 'key', 'state', 'run', 'id'], rows)
    },
  },
}

const CANNOT = 'cannot be kept as it is written: put it in quotes'

/** `id=7` for each column, or JSON. No value is ever repeated in an error. */
export function keyOf(given: readonly string[]): Readonly<Record<string, unknown>> {
  const wrong = new UsageError(
    '--key takes column=value for each column of the key, or one JSON object with all of them',
  )
  const [only = ''] = given
  if (given.length === 1 && only.trimStart().startsWith('{')) {
    try {
      return parseKeepingNumbers(only) as Readonly<Record<string, unknown>>
    } catch (error) {
      if (error instanceof NumbersLost)
        throw new UsageError(`--key has a number at ${error.pointers[0]} that ${CANNOT}`)
      throw wrong
    }
  }
  const cells = given.map((text) => [text.slice(0, text.indexOf('=')), text.slice(text.indexOf('=') + 1)] as const)
  const columns = new Set(cells.map(([column]) => column))
  if (cells.length === 0 || columns.has('') || given.some((text) => text.indexOf('=') < 1)) throw wrong
  if (columns.size < cells.length) throw new UsageError('--key gives a column of the key twice')
  return Object.fromEntries(cells)
}

function textOf({ id, table, state, run_id, found, proof, note }: ErasureAnswer): string {
  if (proof === null) {
    const more =
      state === 'queued' || state === 'running'
        ? 'sluice erase list tells how far it is'
        : `sluice logs ${run_id} says why`
    return `The erasure ${id} of a row of ${table} is ${state}; ${more}.`
  }
  const gone = Object.values(found?.snapshots ?? {}).reduce((sum, count) => sum + count, 0)
  const made = proof.products.map(({ name, epoch, histories }) =>
    histories.length === 0
      ? `  ${name}, epoch ${epoch}`
      : `  ${name}, epoch ${epoch}; the history in ${histories.join(', ')} begins anew`,
  )
  return [
    `Erased: ${found?.rows ?? 0} rows of ${table}, ${gone} snapshots, ${proof.quarantined} rows put aside, ${proof.exports} exports.`,
    `A search of ${proof.tables.length} lake tables and of all copies in stores found nothing.`,
    ...(made.length === 0 ? [] : ['Made anew, totals too:', ...made]),
    note,
  ].join('\n')
}
