/** The limits that reads are held against: the least that could answer the same question, in a process of its own. */
import { createServer } from 'node:http'
import Koa from 'koa'
import { open } from 'lmdb'
import pg from 'pg'

const [kind, target] = process.argv.slice(2)

async function answerer(): Promise<(asked: URLSearchParams) => Promise<string> | string> {
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
  context.body = await answer(new URL(context.url, 'http://localhost').searchParams)
})
const server = createServer(koa.callback()).listen(0, '127.0.0.1', () => {
  console.log((server.address() as { port: number }).port)
})
