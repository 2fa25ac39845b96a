/** What generated clients make of servers and networks that fail: in both languages the same. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe as group, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { until } from '../../../../test/until.ts'
import { describe } from '../../operations/products/product-schema.ts'
import { column, key, product } from '../../operations/products/products.fixture.ts'
import { pythonClient } from './python-client.ts'
import { scriptClient } from './script-client.ts'

const PRODUCT = describe(
  product(
    't.p',
    [key('id', 'long'), column('city', 'string'), column('at', 'date')],
    [
      { type: 'lookup', config: { index_columns: ['id', 'city'], history_mode: 'type_2', tracked_columns: ['city'] } },
      { type: 'timeseries', config: {} },
    ],
  ),
)

// biome-ignore lint/suspicious/noExplicitAny: its types are another test's
type Client = any

interface Asked {
  readonly request: IncomingMessage
  readonly body: string
  readonly reply: ServerResponse
}

/** In place of each other: both print what they found as JSON. */
interface Scenario {
  readonly what: string
  /** @param at how many requests came before */
  readonly answer: (asked: Asked, at: number) => void
  readonly script: (client: Client, one: { readonly SluiceError: new () => Error }) => Promise<unknown>
  /** Lines of Python that set `found`. */
  readonly python: string
  readonly found: unknown
  /** Of each request, what counts here. */
  readonly asked?: (asked: Asked) => unknown
  readonly expected?: readonly unknown[]
}

let folder = ''
let url = ''
let scenario: Scenario
let seen: unknown[] = []
let strangers = 0
const closing: { close(): unknown; closeAllConnections(): void }[] = []

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-clients-'))
  await writeFile(join(folder, 'package.json'), '{"type": "module"}')
  await writeFile(join(folder, 'client.ts'), scriptClient([PRODUCT]))
  await writeFile(join(folder, 'client.py'), pythonClient([PRODUCT]))
  url = await listening((request, reply) => {
    let body = ''
    request.on('data', (chunk) => (body += chunk))
    request.on('end', () => {
      seen.push((scenario.asked ?? (() => null))({ request, body, reply }))
      scenario.answer({ request, body, reply }, seen.length - 1)
    })
  })
})

after(async () => {
  for (const server of closing) {
    server.close()
    server.closeAllConnections()
  }
  await rm(folder, { recursive: true, force: true })
})

async function listening(handle: (request: IncomingMessage, reply: ServerResponse) => void): Promise<string> {
  const server = createServer(handle)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(server)
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const json = ({ reply }: Asked, status: number, value: unknown, headers: Record<string, string> = {}): void => {
  reply.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value))
}
const rowsAre = (rows: unknown) => (asked: Asked) => json(asked, 200, { data: [{ rows }] })
const problem = { code: 'rate_limited', detail: 'too many', remedy: 'Wait.', request_id: 'r1', status: 429 }
const CUT = 'cut'
/** Writes texts in turn; `cut` breaks the connection, and without it the answer ends well. */
const parts = (asked: Asked, type: string, ...texts: readonly string[]): void => {
  asked.reply.writeHead(200, { 'content-type': type })
  const [text, ...rest] = texts
  const go = (one: string | undefined, others: readonly string[]): void => {
    if (one === undefined) return void asked.reply.end()
    if (one === CUT) return void asked.request.socket.destroy()
    asked.reply.write(one, () => setTimeout(() => go(others[0], others.slice(1)), 20))
  }
  go(text, rest)
}
const event = (id: string, kind: string, data: unknown): string =>
  `id: ${id}\nevent: ${kind}\ndata: ${JSON.stringify(data)}\n\n`
const SSE = 'text/event-stream'

/** How an error is told below: [status, code, remedy, seconds to wait]. */
const failed = async (work: () => Promise<unknown>): Promise<unknown> => {
  try {
    return await work()
  } catch (error) {
    const { status, code, remedy, retryAfterMs } = error as Readonly<Record<string, unknown>>
    return [status, code, remedy, retryAfterMs === null ? null : Number(retryAfterMs) / 1000]
  }
}
const PRELUDE = `
import itertools, json, sys
from client import Sluice, SluiceError
tokens = itertools.count(1)
client = Sluice(sys.argv[1], lambda: f"t{next(tokens)}", timeout_s=20)
p = client.products["t.p"]
def failed(work):
    try:
        return work()
    except SluiceError as e:
        return [e.status, e.code, e.remedy, e.retry_after_s]
def told(changes, count):
    return [[c.kind, c.id, c.row or c.key or c.epoch or c.reason] for c in itertools.islice(changes, count)]
`
const toldBy = async (changes: AsyncIterable<Client>, count: number): Promise<unknown> => {
  const told: unknown[] = []
  for await (const one of changes) {
    told.push([one.kind, one.id, one.row ?? one.key ?? one.epoch ?? one.reason])
    if (told.length === count) break
  }
  return told
}
const lastIds = ({ request }: Asked) => request.headers['last-event-id'] ?? null

const SCENARIOS: readonly Scenario[] = [
  {
    what: 'asks for a token before each request, and sends long numbers with all their digits',
    answer: rowsAre([null]),
    script: async ({ products }) => [
      await products['t.p'].lookup.get(2n ** 62n),
      await products['t.p'].lookup.get({ id: 7 }),
    ],
    python: 'found = [p.lookup.get(2**62), p.lookup.get({"id": 7})]',
    found: [null, null],
    asked: ({ request, body }) => [request.headers.authorization, JSON.parse(body).items[0].keys],
    expected: [
      ['Bearer t1', ['4611686018427387904']],
      ['Bearer t2', [{ id: 7 }]],
    ],
  },
  {
    what: 'says of a refusal what the server says of it',
    answer: (asked) => json(asked, 429, problem, { 'retry-after': '7' }),
    script: (client) => failed(() => client.query('SELECT 1')),
    python: 'found = failed(lambda: client.query("SELECT 1"))',
    found: [429, 'rate_limited', 'Wait.', 7],
  },
  {
    what: 'throws the problem of an item as one of its own',
    answer: (asked) =>
      json(asked, 200, { data: [{ product: 't.p', store: 'lookup', error: { ...problem, status: 404 } }] }),
    script: ({ products }) => failed(() => products['t.p'].lookup.getMany([1, 2])),
    python: 'found = failed(lambda: p.lookup.get_many([1, 2]))',
    found: [404, 'rate_limited', 'Wait.', null],
  },
  {
    what: 'knows what is not Sluice, whatever it answers',
    answer: ({ reply }, at) => reply.writeHead(at === 0 ? 502 : 200, { 'content-type': 'text/html' }).end('<html>'),
    script: async (client) => [await failed(() => client.query('x')), await failed(() => client.query('x'))],
    python: 'found = [failed(lambda: client.query("x")), failed(lambda: client.query("x"))]',
    found: [
      [502, 'not_sluice', null, null],
      [200, 'not_sluice', null, null],
    ],
  },
  {
    what: 'follows nobody elsewhere: the token is for its server',
    answer: ({ reply }) => reply.writeHead(302, { location: strangerUrl }).end(),
    async script(client) {
      const read = await failed(() => client.products['t.p'].timeseries.page())
      const asked = await failed(() => client.query('x'))
      return [Array.isArray(read), Array.isArray(asked)]
    },
    python:
      'found = [isinstance(failed(p.timeseries.page), list), isinstance(failed(lambda: client.query("x")), list)]',
    found: [true, true],
  },
  {
    what: 'says that nobody answers, and that an answer broke off',
    answer: ({ request }) => request.socket.destroy(),
    script: (client) => failed(() => client.query('x')),
    python: 'found = failed(lambda: client.query("x"))',
    found: [0, 'unreachable', null, null],
  },
  {
    what: 'waits no longer than it may',
    answer: () => {},
    script: (client) => failed(() => client.query('x', { timeoutMs: 300 })),
    python: 'found = failed(lambda: client.query("x", timeout_s=0.3))',
    found: [0, 'timed_out', null, null],
  },
  ...Object.entries({
    'in a line': [null, '{"a":1}\n{"a"', ':2}\n{"a":', CUT],
    'between two': [null, '{"a":1}\n', '{"a":2}\n', CUT],
    'between two, and had said its length': [24, '{"a":1}\n', '{"a":2}\n', CUT],
  } as const).map(
    ([where, [bytes, ...sent]]): Scenario => ({
      what: `gives the rows that came of an answer that was cut ${where}, and then says that it was`,
      answer(asked) {
        if (bytes !== null) asked.reply.setHeader('content-length', bytes)
        parts(asked, 'application/x-ndjson', ...sent)
      },
      async script(client) {
        const rows: unknown[] = []
        const end = await failed(async () => {
          for await (const { a } of client.queryRows('x')) rows.push(a)
        })
        return [rows, end]
      },
      python: `
rows = []
def read():
    for row in client.query_rows("x"):
        rows.append(row["a"])
found = [rows, failed(read)]
found = [rows, found[1]]`,
      found: [
        [1, 2],
        [0, 'unreachable', null, null],
      ],
    }),
  ),
  {
    what: 'reads pages one after the other, with filters and history as they are asked for',
    answer: (asked, at) => json(asked, 200, { data: [{ id: at }], meta: {}, next_cursor: at === 0 ? 'c +1' : null }),
    async script({ products }) {
      const rows: unknown[] = []
      const filter = { city: { in: ['a', 'ö&b'], ge: 'a' }, id: 3 }
      for await (const { id } of products['t.p'].lookup.find({
        filter,
        columns: ['id'],
        order: ['id'],
        at: '2026',
        pageSize: 1,
      }))
        rows.push(id)
      const refused = await failed(() => products['t.p'].lookup.page({ filter: { city: { in: ['a,b'] } } })).then(
        String,
      )
      return [rows, refused]
    },
    python: `
filters = {"city": {"in": ["a", "ö&b"], "ge": "a"}, "id": 3}
rows = [row["id"] for row in p.lookup.find(filters, columns=["id"], order=["id"], at="2026", page_size=1)]
try:
    p.lookup.page({"city": {"in": ["a,b"]}})
except ValueError:
    found = [rows, ",,,NaN"]`,
    found: [[0, 1], ',,,NaN'],
    asked({ request }) {
      const { pathname, searchParams } = new URL(request.url ?? '', url)
      return [pathname, [...searchParams].map((pair) => pair.join('=')).toSorted()]
    },
    expected: ['', 'cursor=c +1'].map((cursor) => [
      '/api/v1/products/t.p/latest',
      [
        'at=2026',
        'columns=id',
        ...(cursor === '' ? [] : [cursor]),
        'filter=city.ge:a',
        'filter=city.in:a,ö&b',
        'filter=id:3',
        'limit=1',
        'order=id',
      ],
    ]),
  },
  {
    what: 'refuses filters that would ask for something else, and asks for nothing',
    answer: (asked) => json(asked, 200, { data: [], meta: {}, next_cursor: null }),
    async script({ products }) {
      const refused: string[] = []
      const odd = [null, { eq: null }, { eq: ['a'] }, { in: [] }, { in: 'ab' }, { in: ['a', null] }, ['a'], new Date(0)]
      for (const city of odd as never[])
        await Promise.resolve()
          .then(() => products['t.p'].lookup.page({ filter: { city } }))
          .catch((error) => refused.push(error.name))
      return refused.map((name) => name === 'TypeError')
    },
    python: `
found = []
for odd in [None, {"eq": None}, {"eq": ["a"]}, {"in": []}, {"in": "ab"}, {"in": ["a", None]}, ["a"], b"a"]:
    try:
        p.lookup.page({"city": odd})
    except ValueError:
        found.append(True)`,
    found: Array(8).fill(true),
    asked: ({ request }) => request.url,
    expected: [],
  },
  {
    what: 'asks for a range by its time',
    answer: (asked) => json(asked, 200, { data: [], meta: {}, next_cursor: null }),
    script: ({ products }) =>
      products['t.p'].timeseries.page({ from: '2026-01-01', to: '2026-02-01', order: 'desc' }).then(() => 0),
    python: 'found = len(p.timeseries.page("2026-01-01", "2026-02-01", order="desc").data)',
    found: 0,
    asked: ({ request }) => [...new URL(request.url ?? '', url).searchParams].map((pair) => pair.join('=')).toSorted(),
    expected: [['from=2026-01-01', 'limit=500', 'order=desc', 'to=2026-02-01']],
  },
  {
    what: 'comes back to where a stream of changes broke, past everything that passes',
    answer(asked, at) {
      const begin = 'retry: 10\n\n'
      const [one, two] = [event('1', 'upsert', { id: 1 }), event('2', 'delete', { id: 1 })]
      if (at === 0)
        parts(asked, SSE, begin, `: still here\n\n${one.slice(0, 20)}`, one.slice(20), two.slice(0, 30), CUT)
      else if (at === 1) json(asked, 503, { code: 'starting', status: 503 }, { 'retry-after': '0' })
      else if (at === 2) asked.request.socket.destroy()
      else if (at === 3)
        parts(asked, SSE, two + event('2a', 'later', {}), event('3', 'epoch', { epoch: 4, version: '1.0.0' }))
      else
        parts(
          asked,
          SSE,
          event('3b', 'epoch', { epoch: 4, version: '1.0.0' }),
          event('4', 'reset', { reason: 'changed' }),
          event('5', 'problem', { code: 'product_forbidden', detail: 'x', remedy: 'Ask.' }),
        )
    },
    async script({ products }) {
      const changes = products['t.p'].changes.follow({ from: 'start' })
      const told = []
      for (let count = 0; count < 4; count += 1) told.push((await changes.next()).value)
      const shown = told.map((one) => [one.kind, one.id, one.row ?? one.key ?? one.epoch ?? one.reason])
      return [shown, await failed(() => changes.next())]
    },
    python: `
changes = p.changes.follow("start")
shown = told(changes, 4)
found = [shown, failed(lambda: next(changes))]`,
    found: [
      [
        ['upsert', '1', { id: 1 }],
        ['delete', '2', { id: 1 }],
        ['epoch', '3', 4],
        ['reset', '4', 'changed'],
      ],
      [500, 'product_forbidden', 'Ask.', null],
    ],
    asked: lastIds,
    expected: [null, '1', '1', '1', '3'],
  },
  {
    what: 'begins anew with a fresh token where the old one is over, and not for ever',
    answer(asked, at) {
      const over = event(`p${at}`, 'problem', { code: 'right_ended', detail: 'over', remedy: 'Come again.' })
      parts(asked, SSE, 'retry: 10\n\n', ...(at === 1 ? [event('9', 'upsert', { id: 9 })] : []), over)
    },
    async script({ products }) {
      const changes = products['t.p'].changes.follow()
      return [
        await toldBy({ [Symbol.asyncIterator]: () => ({ next: () => changes.next() }) }, 1),
        await failed(() => changes.next()),
      ]
    },
    python: 'changes = p.changes.follow()\nfound = [told(changes, 1), failed(lambda: next(changes))]',
    found: [[['upsert', '9', { id: 9 }]], [500, 'right_ended', 'Come again.', null]],
    asked: ({ request }) => [request.headers.authorization, request.headers['last-event-id'] ?? null],
    expected: [
      ['Bearer t1', null],
      ['Bearer t2', 'p0'],
    ],
  },
  {
    what: 'gives a stream up where nobody has answered for as long as it is patient',
    answer: ({ request }) => request.socket.destroy(),
    script: ({ products }) => failed(() => products['t.p'].changes.follow({ patienceMs: -1 }).next()),
    python: 'found = failed(lambda: next(p.changes.follow(patience_s=-1)))',
    found: [0, 'unreachable', null, null],
  },
]

let strangerUrl = ''

async function checked(one: Scenario, play: () => Promise<unknown>): Promise<void> {
  scenario = one
  seen = []
  strangers = 0
  assert.deepEqual(await play(), one.found)
  if (one.expected !== undefined) assert.deepEqual(seen, one.expected)
  assert.equal(strangers, 0)
}

before(async () => {
  strangerUrl = await listening((_, reply) => {
    strangers += 1
    reply.end('{}')
  })
})

group('a client in TypeScript', () => {
  let made: Client

  before(async () => {
    made = await import(pathToFileURL(join(folder, 'client.ts')).href)
  })

  const open = (): Client => {
    let tokens = 0
    return new made.Sluice({ url: `${url}/`, token: async () => `t${(tokens += 1)}`, timeoutMs: 20_000 })
  }

  for (const one of SCENARIOS) it(one.what, () => checked(one, () => one.script(open(), made)))

  it('stops at once where its caller does: before an answer, within one, and between two', async () => {
    const { asked: _, ...plain } = SCENARIOS[0] as Scenario
    const follow = (signal: AbortSignal) => open().products['t.p'].changes.follow({ signal }).next()
    const query = (signal: AbortSignal) => open().query('x', { signal })
    for (const answer of [
      () => {},
      ({ reply }: Asked) => reply.writeHead(200, { 'content-type': SSE }).write('retry: 600000\n\n'),
      (asked: Asked) => json(asked, 503, { code: 'starting', status: 503 }, { 'retry-after': '600' }),
    ]) {
      for (const work of [follow, query]) {
        if (answer.length > 0 && work === query) continue
        scenario = { ...plain, answer }
        seen = []
        const ended = new AbortController()
        const reason = new Error('enough')
        const working = work(ended.signal)
        await until('the request is there', () => seen.length > 0)
        setTimeout(() => ended.abort(reason), 20)
        await assert.rejects(working, reason)
        await assert.rejects(work(ended.signal), reason)
      }
    }
  })
})

group('a client in Python', async () => {
  const version = await new Promise<string | null>((resolve) => {
    execFile('python3', ['--version'], (error, out) => resolve(error === null ? out.trim() : null))
  })
  const skip = version === null ? 'there is no python3 here' : false

  for (const [at, one] of SCENARIOS.entries()) {
    it(one.what, { skip }, () =>
      checked(one, async () => {
        const file = join(folder, `scenario_${at}.py`)
        await writeFile(file, `${PRELUDE}${one.python}\nprint(json.dumps(found))\n`)
        return await new Promise((resolve, reject) => {
          const env = { ...process.env, no_proxy: '*' }
          execFile('python3', [file, url], { cwd: folder, env }, (error, out, err) =>
            error === null ? resolve(JSON.parse(out)) : reject(new Error(err)),
          )
        })
      }),
    )
  }
})
