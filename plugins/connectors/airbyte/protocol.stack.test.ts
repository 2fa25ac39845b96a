/** Lines that keep no protocol, of each type of message and in each way, and what comes of reads of a world that sends rows more than once. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ConnectorHost, ConnectorState, ProgramEnd, ProgramRequest, ReadEvent, SluiceError } from '@sluice/sdk'
import { createConnector } from './connector.ts'
import { parseSettings } from './settings.ts'

const SECRET = 'hunter2-very-secret'
const ENDED: ProgramEnd = { how: 'exited', code: 0, addressRefused: false }
type Answer = (request: ProgramRequest) => { readonly output: string; readonly end?: Partial<ProgramEnd> }

const STREAM = {
  name: 't',
  json_schema: {
    properties: {
      id: { type: 'integer' },
      amount: { type: ['null', 'number'] },
      born: { type: ['null', 'string'], format: 'date' },
      changed: { type: 'integer' },
      tags: { type: ['null', 'array'] },
    },
  },
  supported_sync_modes: ['full_refresh', 'incremental'],
  source_defined_cursor: true,
  default_cursor_field: ['changed'],
  source_defined_primary_key: [['id']],
}
const line = (message: unknown) => `${JSON.stringify(message)}\n`
const catalog = line({ type: 'CATALOG', catalog: { streams: [STREAM] } })
const record = (data: unknown, stream = 't') => ({ type: 'RECORD', record: { stream, data, emitted_at: 1 } })
const state = (changed: unknown, name = 't', more = {}) => ({
  type: 'STATE',
  state: { type: 'STREAM', stream: { stream_descriptor: { name }, stream_state: { changed } }, ...more },
})
const status = (said: string) => ({
  type: 'TRACE',
  trace: { type: 'STREAM_STATUS', stream_status: { stream_descriptor: { name: 't' }, status: said } },
})

/** A program that says what it is told to, in pieces of any size. */
function connectorOf(answer: Answer, logged: unknown[] = [], pieceBytes = 7) {
  const log = (...said: unknown[]) => void logged.push(said)
  const host = {
    logger: { debug: log, info: log, warn: log, error: log },
    clock: { nowMs: () => 0 },
    programs: {
      start: async (request: ProgramRequest) => {
        const { output, end } = request.words[0] === 'discover' ? { output: catalog, end: {} } : answer(request)
        const bytes = Buffer.from(output)
        const pieces = async function* () {
          for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes)
        }
        return { output: pieces(), ended: Promise.resolve({ ...ENDED, ...end }), stop: () => undefined }
      },
    },
  } as unknown as ConnectorHost
  return createConnector(parseSettings({ program: 'fake', config: JSON.stringify({ password: SECRET }) }), host)
}

async function read(answer: Answer, from: ConnectorState | null = null, logged?: unknown[], pieceBytes?: number) {
  const events: ReadEvent[] = []
  const { signal } = new AbortController()
  const request = { schema: 'airbyte', table: 't', mode: 'incremental', columns: [], primaryKey: ['id'] } as const
  const connector = connectorOf(answer, logged, pieceBytes)
  for await (const event of connector.read({ ...request, cursorColumn: 'changed', state: from, signal }))
    events.push(event)
  const csv = events
    .map((event) => (event.kind === 'csv' ? Buffer.from(event.chunk as Uint8Array).toString() : ''))
    .join('')
  const last = events.at(-1)
  assert(last?.kind === 'state')
  return {
    lines: csv.split('\n').filter((one) => one !== ''),
    rejects: events.filter(({ kind }) => kind === 'reject'),
    state: last.state,
  }
}

async function refusedWith(code: string, output: string, end: Partial<ProgramEnd> = {}): Promise<void> {
  const logged: unknown[] = []
  await assert.rejects(
    read(() => ({ output, end }), null, logged, 65_536),
    (error: SluiceError) => {
      assert.equal(error.code, code, error.message)
      assert(!`${error.message} ${error.remedy} ${String(error.cause)} ${JSON.stringify(logged)}`.includes(SECRET))
      return true
    },
  )
}

const MESSAGES: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  RECORD: record({ id: 1, changed: 1 }),
  STATE: state(1),
  LOG: { type: 'LOG', log: { level: 'INFO', message: SECRET } },
  TRACE: status('COMPLETE'),
  CATALOG: JSON.parse(catalog),
  SPEC: { type: 'SPEC', spec: { connectionSpecification: {} } },
  CONNECTION_STATUS: { type: 'CONNECTION_STATUS', connectionStatus: { status: 'SUCCEEDED' } },
  CONTROL: { type: 'CONTROL', control: { type: 'CONNECTOR_CONFIG' } },
}
const WAYS: Readonly<Record<string, (message: Readonly<Record<string, unknown>>) => string>> = {
  'cut off': (message) => `${line(message).slice(0, line(message).length / 2)}\n`,
  'without an end': (message) => line(message).slice(0, -5),
  'without a body': ({ type }) => line({ type }),
  'with another body': (message) =>
    line(Object.fromEntries(Object.entries(message).map(([name, value]) => [name, name === 'type' ? value : [1]]))),
  'again and again': (message) => line(message).repeat(3),
}
/** What is for people is let go by, and what belongs into a read is taken. */
const BORNE = /^(LOG (without a body|with another body|again)|(RECORD|STATE|TRACE) again)/

describe('a message in the middle of a read', () => {
  for (const [type, message] of Object.entries(MESSAGES))
    for (const [way, told] of Object.entries(WAYS))
      it(`${type} ${way}`, async () => {
        if (BORNE.test(`${type} ${way}`)) await read(() => ({ output: told(message) }))
        else await refusedWith('source_answer_invalid', told(message))
      })
})

it('what has no end, no measure or no sense is refused by its kind', async () => {
  const error = (failure_type: string) =>
    line({ type: 'TRACE', trace: { type: 'ERROR', error: { message: SECRET, failure_type } } })
  await refusedWith('source_answer_invalid', `{${'x'.repeat(5 * 1024 * 1024)}`)
  await refusedWith('source_answer_invalid', line(record({ id: 1 }, 'others')))
  await refusedWith('source_answer_invalid', line(state(1, 'others')))
  await refusedWith('source_answer_invalid', line({ type: 'STATE', state: { data: {} } }))
  await refusedWith(
    'source_answer_invalid',
    line(record({ id: 1 })) + line(state(1, 't', { sourceStats: { recordCount: 7 } })),
  )
  await refusedWith('source_answer_invalid', line(record({ id: 1 })) + line(status('INCOMPLETE')))
  await refusedWith('source_too_large', line(state('x'.repeat(60_000))))
  await refusedWith('source_program_failed', line(record({ id: 1 })), { code: 3 })
  await refusedWith('source_memory_exceeded', error('config_error'), { how: 'memory', code: null })
  await refusedWith('source_reader_failed', '', { how: 'lost', code: null })
  await refusedWith('address_refused', error('transient_error'), { code: 1, addressRefused: true })
  await refusedWith('source_config_refused', error('config_error'), { code: 1 })
  await refusedWith('source_unavailable', error('transient_error'), { code: 1 })
  await refusedWith('source_program_failed', error('anything'), { code: 1 })
  // A failure that is told counts, however well the program ends.
  await refusedWith('source_program_failed', error('system_error'))
})

it('a value that no type holds costs its row, and none is rounded', async () => {
  const rows = [
    ['{"id":1,"amount":0.1,"changed":1}', true],
    ['{"id":2,"amount":0.12345678901234567891,"changed":1}', false],
    ['{"id":9223372036854775807,"amount":1e300,"changed":1}', true],
    ['{"id":9223372036854775808,"changed":1}', false],
    ['{"id":3.0,"changed":1}', true],
    ['{"id":3.5,"changed":1}', false],
    ['{"id":4,"born":"2023-02-29","changed":1}', false],
    ['{"id":5,"changed":1,"tags":{"a":[1.10,12345678901234567890]}}', true],
    ['{"changed":1}', false],
    [`{"id":6,"changed":1,"tags":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, false],
  ] as const
  const output = rows.map(([row]) => `{"type":"RECORD","record":{"stream":"t","data":${row}}}\n`).join('')
  const { lines, rejects } = await read(() => ({ output }), null, [], 65_536)
  assert.equal(lines.length, rows.filter(([, isTaken]) => isTaken).length)
  assert.equal(rejects.length, rows.filter(([, isTaken]) => !isTaken).length)
  assert.match(lines.join('\n'), /^"9223372036854775807","1e\+300"/m)
  assert.match(lines.join('\n'), /1\.10,12345678901234567890/)
})

it('a world that changes while reads break off comes to be known exactly, by key', async () => {
  let seed = 11
  const any = (count: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((seed / 2_147_483_648) * count)
  }
  const world = new Map<number, { id: number; amount: number; changed: number }>()
  let clock = 0
  /** At least once: what is of the position's own number comes again, some rows come twice, and it may die anywhere. */
  const program: Answer = ({ files }) => {
    const saved = files['state.json']
    const after = saved === undefined ? -1 : JSON.parse(saved)[0].stream.stream_state.changed
    const rows = [...world.values()].filter(({ changed }) => changed >= after).sort((a, b) => a.changed - b.changed)
    const said: unknown[] = rows.flatMap<unknown>((row, place) => [
      record(row),
      ...(any(3) === 0 ? [record(row)] : []),
      ...(place % 4 === 3 ? [state(row.changed)] : []),
    ])
    const whole = said.concat(state(rows.at(-1)?.changed ?? after), status('COMPLETE')).map(line)
    if (any(3) > 0) return { output: whole.join('') }
    return { output: whole.slice(0, any(whole.length)).join(''), end: { code: null, how: 'killed' } }
  }
  const kept = new Map<string, string>()
  let position: ConnectorState | null = null
  for (let round = 0; round < 60; round += 1) {
    for (let count = any(6); count > 0; count -= 1) {
      const id = any(20)
      clock += 1
      world.set(id, { id, amount: any(1000) / 10, changed: clock })
    }
    for (let isRead = false; !isRead; ) {
      try {
        const { lines, state: next } = await read(program, position, [], 1 + any(400))
        for (const row of lines) kept.set(row.split(',')[0] ?? '', row)
        position = next
        isRead = true
      } catch (error) {
        // Nothing of it is taken over, as the runtime takes nothing over.
        assert.equal((error as SluiceError).code, 'source_program_failed')
      }
    }
    const wanted = [...world.values()].map(({ id, amount, changed }) => `"${id}","${amount}",,"${changed}",`)
    assert.deepEqual([...kept.values()].sort(), wanted.sort(), `round ${round}`)
  }
})

it('refuses manifests and code that a connection brings along', () => {
  for (const name of ['__injected_declarative_manifest', '__injected_components_py'])
    for (const config of [{ [name]: {} }, { nested: [{ [name]: 'x' }] }])
      assert.throws(() => parseSettings({ program: 'fake', config: JSON.stringify(config) }), {
        code: 'settings_invalid',
      })
})
