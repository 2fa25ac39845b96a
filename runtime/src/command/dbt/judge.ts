/** Whether the engine would take a statement, and what it would give: asked behind its walls, without a row of data. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ColumnLineage } from '@sluice/engine'
import { isSluiceError, type LogicalType } from '@sluice/sdk'

export interface JudgedTable {
  readonly name: string
  readonly columns: readonly { readonly name: string; readonly type: LogicalType }[]
}

export type Judged =
  | { readonly refusal: string }
  | {
      readonly refusal: null
      /** `type` as `ResultColumn` has it. */
      readonly columns: readonly { readonly name: string; readonly type: string }[]
      readonly lineage: readonly ColumnLineage[]
    }

export type Judge = (sql: string, tables: readonly JudgedTable[]) => Promise<Judged>

const AT_ONCE = 2
const LIMITS = { memoryBytes: 1024 ** 3, timeoutMs: 120_000, threads: 1 } as const

export async function withJudge<T>(work: (judge: Judge) => Promise<T>): Promise<T> {
  const { createEngine } = await import('@sluice/engine')
  const scratchDir = await mkdtemp(join(tmpdir(), 'sluice-dbt-'))
  const engine = createEngine({ scratchDir, maxChildren: AT_ONCE, warmChildren: AT_ONCE, maxQueued: AT_ONCE })
  const turns = Array.from({ length: AT_ONCE }, () => Promise.resolve())
  let next = 0
  const judge: Judge = (sql, tables) => {
    const turn = next++ % AT_ONCE
    const answer = (turns[turn] as Promise<void>).then(async () => {
      const output = { kind: 'inspect', sql } as const
      const run = await engine.run(
        { trust: 'tenant', tables: tables.map(emptyTable), output, limits: LIMITS },
        AbortSignal.timeout(LIMITS.timeoutMs),
      )
      return { refusal: null, columns: run.columns, lineage: run.lineage } as const
    })
    turns[turn] = answer.then(
      () => {},
      () => {},
    )
    return answer.catch((error: unknown) => ({ refusal: refusalOf(error) }))
  }
  try {
    return await work(judge)
  } finally {
    await engine.close()
    await rm(scratchDir, { recursive: true, force: true })
  }
}

/** Of the statement, which may also ask for too much; what else fails is no word about it. */
function refusalOf(error: unknown): string {
  if (isSluiceError(error) && ['INVALID_DATA', 'TRANSIENT', 'QUOTA'].includes(error.kind)) return error.message
  throw error
}

const emptyTable = ({ name, columns }: JudgedTable) => ({
  name: [name],
  files: [],
  columns: columns.map((column, index) => ({ ...column, fieldId: index + 1 })),
})
