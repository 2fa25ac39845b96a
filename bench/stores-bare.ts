/** Bare clients of the servers that the stores use: the same question, asked by as many at once, without anything between. */
import { glob } from 'node:fs/promises'
import { DuckDBInstance } from '@duckdb/node-api'
import { Redis } from 'ioredis'
import pg from 'pg'

export interface Speed {
  readonly requestsPerS: number
  readonly medianMs: number
}

/** Asks with the number of a row that is there. */
export type Ask = (id: number) => Promise<unknown>

export interface Bare {
  readonly asks: readonly Ask[]
  close(): Promise<unknown>
}

export async function barePostgres(url: string, atOnce: number, text: string): Promise<Bare> {
  const clients = Array.from({ length: atOnce }, () => new pg.Client({ connectionString: url }))
  for (const client of clients) await client.connect()
  return {
    asks: clients.map((client) => (id) => client.query({ name: 'asked', text, values: [id] })),
    close: () => Promise.all(clients.map((client) => client.end())),
  }
}

export async function bareRedis(url: string, atOnce: number, prefix: string): Promise<Bare> {
  const clients = Array.from({ length: atOnce }, () => new Redis(url))
  return {
    asks: clients.map((client) => (id) => client.get(`${prefix}${id}`)),
    close: async () => {
      for (const client of clients) client.disconnect()
    },
  }
}

/** Over the same parquet files, in this process. */
export async function bareDuckdb(pattern: string, atOnce: number, sql: (files: string) => string): Promise<Bare> {
  const files: string[] = []
  for await (const file of glob(pattern)) files.push(`'${file}'`)
  const instance = await DuckDBInstance.create(':memory:', { threads: '2' })
  const connections = await Promise.all(Array.from({ length: atOnce }, () => instance.connect()))
  const text = sql(`read_parquet([${files.join(', ')}])`)
  return {
    asks: connections.map((connection) => async () => (await connection.runAndReadAll(text)).getRowsJson()),
    close: async () => {
      for (const connection of connections) connection.closeSync()
      instance.closeSync()
    },
  }
}

/** Both warm, then in turns; of each the median of three rounds. */
export async function inTurns(
  ours: () => Promise<Speed>,
  limit: () => Promise<Speed>,
): Promise<readonly [Speed, Speed]> {
  const found: [Speed[], Speed[]] = [[], []]
  for (let round = 0; round < 4; round += 1) {
    const [mine, theirs] = [await ours(), await limit()]
    if (round === 0) continue
    found[0].push(mine)
    found[1].push(theirs)
  }
  return [middle(found[0]), middle(found[1])]
}

function middle(speeds: readonly Speed[]): Speed {
  return speeds.toSorted((left, right) => left.requestsPerS - right.requestsPerS)[1] as Speed
}

export async function speedOf({ asks }: Pick<Bare, 'asks'>, rows: number, seconds: number): Promise<Speed> {
  const times: number[] = []
  const startedMs = performance.now()
  const endsMs = startedMs + seconds * 1000
  const work = async (ask: Ask) => {
    while (performance.now() < endsMs) {
      const fromMs = performance.now()
      await ask(1 + Math.floor(Math.random() * rows))
      times.push(performance.now() - fromMs)
    }
  }
  await Promise.all(asks.map(work))
  times.sort((left, right) => left - right)
  const tookS = (performance.now() - startedMs) / 1000
  return { requestsPerS: times.length / tookS, medianMs: times[Math.floor(times.length / 2)] ?? Number.NaN }
}
