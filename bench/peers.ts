/** The limits that reads are held against: the least that could answer the same question, in a process of its own. */
import { createServer } from 'node:http'
import Koa from 'koa'
import { open } from 'lmdb'
import pg from 'pg'

const [kind, target] = process.argv.slice(2)

async function answerer(): Promise<(id: string) => Promise<string> | string> {
  if (kind === 'lmdb') {
    const database = open<string, string>({ path: target as string, compression: false })
    return (id) => `{"data":[${database.get(`bench:bench:measured:${id}`)}]}`
  }
  const client = new pg.Client({ connectionString: target as string, pipeline: true } as pg.ClientConfig)
  await client.connect()
  const text = 'SELECT row_to_json(m)::text AS row FROM measured m WHERE id = $1'
  return async (id) => {
    const { rows } = await client.query({ name: 'point', text, values: [id] })
    return `{"data":[${(rows[0] as { row: string }).row}]}`
  }
}

const answer = await answerer()
const koa = new Koa()
koa.use(async (context) => {
  context.type = 'application/json'
  context.body = await answer(new URL(context.url, 'http://localhost').searchParams.get('id') as string)
})
const server = createServer(koa.callback()).listen(0, '127.0.0.1', () => {
  console.log((server.address() as { port: number }).port)
})
