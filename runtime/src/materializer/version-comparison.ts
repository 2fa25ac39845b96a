/** The first rows of a new version beside those that are served, before anybody is shown them. */
import type { EngineLimits } from '@sluice/engine'
import { SluiceError } from '@sluice/sdk'
import type { VersionBound } from '../manifest/manifest-set.ts'
import type { ClassifiedColumn } from '../policy/masking.ts'
import type { CheckResult } from '../quality/check-result.ts'
import { type ComparedCounts, comparisonSql, judgeComparison } from '../quality/new-version.ts'
import { decide } from '../quality/verdict.ts'
import type { MaterializeDeps } from './deps.ts'
import type { LakeState } from './lake-state.ts'
import { stateSchema, stateTable } from './lake-state.ts'
import { type CheckRun, orUnable } from './run-checks.ts'

export interface VersionComparison {
  readonly bounds: readonly VersionBound[]
  readonly former: LakeState
  /** As the rows that are served have them, by the classes of today. */
  readonly formerColumns: readonly ClassifiedColumn[]
  readonly next: LakeState
  /** Whatever differs, nothing is kept from being published by it. */
  readonly accepted: boolean
  readonly tenant: string
  readonly limits: EngineLimits
  readonly signal: AbortSignal
}

const FORMER = '__former'
const NEXT = '__next'

/**
 * What cannot be compared has not passed: rows that are told apart by other columns than before, values that are compared to
 * none. Throws where the engine is away, and where the run ends.
 */
export async function compareVersions(
  { bounds, former, formerColumns, next, accepted, tenant, limits, signal }: VersionComparison,
  { engine, nowMs }: Pick<MaterializeDeps, 'engine' | 'nowMs'>,
): Promise<readonly CheckResult[]> {
  const tables = {
    bounds,
    former: { ...stateSchema(former), name: FORMER },
    next: { ...stateSchema(next), name: NEXT },
  }
  const sql = comparisonSql(tables)
  const run: CheckRun = { tenant, engine, limits, ownLimits: limits, nowMs: nowMs(), signal }
  const relations = [stateTable(FORMER, former), stateTable(NEXT, next)]
  const counted = (statements: readonly string[]) =>
    orUnable(run, async () => {
      const steps = statements.map((text) => ({ sql: text, rows: 'collect' as const }))
      const { results } = await engine.run({ trust: 'own', tables: relations, steps, limits }, signal)
      return results.map(({ rows: [row = []] }) => row.map(Number))
    })
  // In one job where all of it can be counted; a key that fits none of before costs only what is counted by it.
  const all = [sql.former, sql.next, ...(sql.matched === null ? [] : [sql.matched])]
  const found = (await counted(all)) ?? (sql.matched === null ? null : await counted(all.slice(0, 2)))
  const counts: ComparedCounts = { former: found?.[0] ?? null, next: found?.[1] ?? null, matched: found?.[2] ?? null }
  const classesOf = (names: readonly string[]) => [
    ...new Set(
      formerColumns.flatMap(({ name, classification }) =>
        names.includes(name) && classification !== 'public' ? [classification] : [],
      ),
    ),
  ]
  return judgeComparison(tables, counts, { accepted, classesOf })
}

/**
 * Throws INVALID_DATA `version_differs`, whose `checks` are the results. Its message tells of no column: members of the tenant see
 * runs who may not see what was compared.
 */
export class VersionDiffers extends SluiceError {
  readonly checks: readonly CheckResult[]

  constructor(version: string, goesOn: string | null, checks: readonly CheckResult[]) {
    const then = goesOn === null ? '' : `; version ${goesOn} goes on`
    super(
      'INVALID_DATA',
      `nothing was published, because version ${version} differs from the rows that are served by more than its new_version allows${then}`,
      {
        code: 'version_differs',
        remedy: 'See by how much with sluice quality; deploy it with its differences accepted where they are meant.',
      },
    )
    this.checks = checks
  }
}

export function isBeyond(results: readonly CheckResult[]): boolean {
  return decide(results).action === 'block'
}
