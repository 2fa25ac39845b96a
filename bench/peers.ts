/** The limits that reads are held against: the least that could answer the same question, in a process of its own. */
import { createServer } from 'node:http'
import { text as textOf } from 'node:stream/consumers'
import Koa from 'koa'
import { open } from 'lmdb'
import pg from 'pg'

const [kind, target] = process.argv.slice(2)

/** What was asked by the address, and the body of the request. */
type Answerer = (asked: URLSearchParams, body: string) => Promise<string> | string

async function answerer(): Promise<Answerer> {
  if (kind === 'lmdb') {
    const database = open<string, string>({ path: target as string, compression: false })
    return (asked) => `{"data":[${database.get(`bench:bench:measured:${asked.get('id')}`)}]}`
  }
  const client = new pg.Client({ connectionString: target as string, pipeline: true } as pg.ClientConfig)
  await client.connect()
  if (kind === 'series') {
    const text = `SELECT json_agg(m)::text AS rows FROM (SELECT * FROM measured WHERE born >= $1::date AND born < $2::date
      ORDER BY born, id LIMIT 100) m`
    return async (asked) => {
      const { rows } = await client.query({ name: 'range', text, values: [asked.get('from'), asked.get('to')] })
      return `{"data":${(rows[0] as { rows: string }).rows}}`
    }
  }
  if (kind === 'keys') {
    const text = 'SELECT id::text AS id, row_to_json(m)::text AS row FROM measured m WHERE id = ANY($1::bigint[])'
    return async (_asked, body) => {
      const { keys } = JSON.parse(body) as { readonly keys: readonly number[] }
      const { rows } = await client.query({ name: 'keys', text, values: [keys] })
      const found = new Map((rows as { id: string; row: string }[]).map(({ id, row }) => [id, row]))
      return `{"data":[{"rows":[${keys.map((key) => found.get(String(key)) ?? 'null').join()}]}]}`
    }
  }
  const text = 'SELECT row_to_json(m)::text AS row FROM measured m WHERE id = $1'
  return async (asked) => {
    const { rows } = await client.query({ name: 'point', text, values: [asked.get('id')] })
    return `{"data":[${(rows[0] as { row: string }).row}]}`
  }
}

const answer = await answerer()
const koa = new Koa()
koa.use(async (context) => {
  context.type = 'application/json'
  const body = context.method === 'POST' ? await textOf(context.req) : ''
  context.body = await answer(new URL(context.url, 'http://localhost').searchParams, body)
})
const server = createServer(koa.callback()).listen(0, '127.0.0.1', () => {
  console.log((server.address() as { port: number }).port)
})
