/** One percent of a table changed, in three ways: all files anew, the touched files anew, position deletes. */
import { randomUUID } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { EngineStep } from '@sluice/engine'
import type { LakeBench } from './lake.ts'

const FILES = 16
const MB = 1024 * 1024

interface Way {
  readonly name: string
  readonly steps: readonly EngineStep[]
  /** What the way leaves to read: a statement that gives the whole table afterwards. */
  readonly readBack: string
  readonly written: readonly string[]
}

export async function measureMerges(bench: LakeBench): Promise<void> {
  console.log(`merge of 1 % into ${bench.rows.toLocaleString('en')} rows in ${FILES} files; then all of it read`)
  for (const spread of [false, true]) await measureSpread(bench, spread)
  console.log()
}

async function measureSpread(bench: LakeBench, spread: boolean): Promise<void> {
  const { rows, folder } = bench
  const perFile = Math.ceil(rows / FILES)
  const dir = join(folder, `merge-${randomUUID()}`)
  const file = (at: number) => `${dir}-${at}.parquet`
  const all = Array.from({ length: FILES }, (_, at) => file(at))
  await run(
    bench,
    all.map((path, at) => copy(rowsOf(at * perFile, Math.min((at + 1) * perFile, rows)), path)),
  )
  const count = Math.ceil(rows / 100)
  const changed = spread
    ? `SELECT range * 100 AS id, 'new' AS name, range * 1.5 AS v FROM range(${count})`
    : `SELECT range AS id, 'new' AS name, range * 1.5 AS v FROM range(${count})`
  const touched = spread ? all : all.slice(0, Math.max(1, Math.ceil(count / perFile)))
  const out = (name: string) => `${dir}-${name}.parquet`
  const list = (files: readonly string[]) => `read_parquet([${files.map((path) => `'${path}'`).join(', ')}]`
  const merged = (files: readonly string[]) =>
    `${changed} UNION ALL SELECT t.* FROM ${list(files)}) t ANTI JOIN (${changed}) c ON t.id = c.id`
  const left = (files: readonly string[]) => all.filter((path) => !files.includes(path))
  const ways: readonly Way[] = [
    {
      name: 'all files anew',
      steps: [copy(merged(all), out('all'))],
      written: [out('all')],
      readBack: `${list([out('all')])})`,
    },
    {
      name: 'touched files anew',
      steps: [
        {
          sql: `SELECT DISTINCT filename FROM ${list(all)}, filename = true) t SEMI JOIN (${changed}) c ON t.id = c.id`,
          rows: 'collect',
        },
        copy(merged(touched), out('cow')),
      ],
      written: [out('cow')],
      readBack: `${list([...left(touched), out('cow')])})`,
    },
    {
      name: 'position deletes',
      steps: [
        copy(
          `SELECT filename AS file_path, file_row_number AS pos FROM ${list(all)}, filename = true, file_row_number = true) t
           SEMI JOIN (${changed}) c ON t.id = c.id ORDER BY ALL`,
          out('deletes'),
        ),
        copy(changed, out('added')),
      ],
      written: [out('deletes'), out('added')],
      readBack: `(SELECT id, name, v FROM ${list(all)}, filename = true, file_row_number = true) t
        ANTI JOIN read_parquet('${out('deletes')}') d ON t.filename = d.file_path AND t.file_row_number = d.pos
        UNION ALL SELECT id, name, v FROM read_parquet('${out('added')}'))`,
    },
  ]
  for (const { name, steps, readBack, written } of ways) {
    const writeMs = await median(() => run(bench, steps))
    const read = [{ sql: `SELECT count(*), sum(v), min(name) FROM ${readBack}`, rows: 'collect' as const }]
    const readMs = await median(() => run(bench, read))
    let bytes = 0
    for (const path of written) bytes += (await stat(path)).size
    const cells = `${(bytes / MB).toFixed(1).padStart(8)} MB written  ${writeMs.toFixed(0).padStart(6)} ms  read ${readMs.toFixed(0).padStart(6)} ms`
    console.log(`  ${spread ? 'spread over all files' : 'in one place         '}  ${name.padEnd(20)} ${cells}`)
  }
}

const rowsOf = (from: number, to: number) =>
  `SELECT range AS id, 'name ' || range AS name, range * 1.25 AS v FROM range(${from}, ${to})`

const copy = (select: string, path: string): EngineStep => ({
  sql: `COPY (${select}) TO '${path}' (FORMAT parquet, COMPRESSION zstd)`,
})

async function run({ engine, folder }: LakeBench, steps: readonly EngineStep[]): Promise<void> {
  const limits = { memoryBytes: 1024 * MB, timeoutMs: 600_000, threads: 2, tempBytes: 4096 * MB }
  await engine.run(
    { trust: 'own', steps, readPaths: [folder], writeDirs: [folder], limits },
    AbortSignal.timeout(600_000),
  )
}

async function median(work: () => Promise<void>): Promise<number> {
  const times: number[] = []
  for (let round = 0; round < 3; round += 1) {
    const start = performance.now()
    await work()
    times.push(performance.now() - start)
  }
  return times.sort((a, b) => a - b)[1] as number
}
