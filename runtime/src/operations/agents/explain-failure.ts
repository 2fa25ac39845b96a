/** Why something failed: the newest failure of a product, of a run, or of the tenant. */
import type { TenantCall } from '../../flow.ts'
import type { ProductOutcome } from '../../ingestion/product-outcome.ts'
import { runLog, tableProgress } from '../../registry/run-progress.ts'
import { listRuns, type Run } from '../../registry/runs.ts'
import { productDetail } from '../products/product-detail.ts'
import { productReader } from '../products/readable-product.ts'
import { rawReader } from '../rights/raw-rights.ts'
import { outcomeSight } from '../runs/outcome-sight.ts'
import { seenLines, seenRun, seenTables } from '../runs/run-view.ts'
import { runOf } from '../runs/runs.ts'
import type { AgentFindings } from './agent-call.ts'
import { BoundedAnswer, shortened } from './bounded-answer.ts'
import type { AgentsDeps } from './deps.ts'
import { productForAgent } from './find-products.ts'

export interface AskedFailure {
  readonly product?: string
  readonly run?: string
}

const RUNS_LOOKED_AT = 100
const LINES = 20
const TABLES = 20

export async function explainFailure(
  platform: AgentsDeps,
  call: TenantCall,
  { product: reference, run: runId }: AskedFailure,
): Promise<AgentFindings> {
  const answer = new BoundedAnswer()
  const product = reference === undefined ? null : await productForAgent(platform, call, reference)
  const products = product === null ? [] : [`${product.domain}.${product.name}`]
  if (product !== null) {
    const { endpoints } = await productDetail(platform, call, product.id)
    answer.addList(
      'endpoints',
      endpoints.flatMap(({ type, state, error }) => (error === null ? [] : [{ type, state, error }])),
    )
  }
  const run =
    runId === undefined ? await newestFailure(platform, call, product?.id) : await runOf(platform, call, runId)
  if (run === null) return { answer: answer.finish('No run that is still known has failed.'), rows: 0, products }
  await addRun(platform, call, run, answer)
  const next =
    'error and reason say what happened; each remedy says what to do. A person has to do it: nothing is changed here.'
  return { answer: answer.finish(next), rows: 0, products }
}

/** Runs of connections make products, too. */
async function newestFailure(platform: AgentsDeps, call: TenantCall, productId?: string): Promise<Run | null> {
  const { items } = await listRuns(platform.pool, call.tenant, { limit: RUNS_LOOKED_AT, after: null })
  const isFailure = (run: Run) => {
    if (productId === undefined || run.productId === productId) return run.state === 'failed'
    return outcomesOf(run).some(({ id, state }) => id === productId && (state === 'failed' || state === 'degraded'))
  }
  return items.find(isFailure) ?? null
}

const outcomesOf = ({ result }: Run): readonly ProductOutcome[] =>
  (result as { readonly products?: readonly ProductOutcome[] } | null)?.products ?? []

async function addRun(platform: AgentsDeps, call: TenantCall, run: Run, answer: BoundedAnswer): Promise<void> {
  const eye = {
    mayRead: rawReader(platform, call.principal, call.tenant),
    mayHear: productReader(platform, call),
    sight: outcomeSight(platform, call),
  }
  const progress = await tableProgress(platform.pool, run.id)
  const seen = await seenRun(run, eye.mayHear, eye.sight)
  const tables = await seenTables(run, progress, eye.mayRead)
  const lines = await seenLines(run, progress, await runLog(platform.pool, run.id), eye)
  answer.add('run', {
    id: run.id,
    kind: run.kind,
    state: run.state,
    attempt: run.attempt,
    finished_at: run.finishedAt?.toISOString() ?? null,
    error: seen.error,
  })
  answer.addList(
    'products',
    outcomesOf(seen).map(({ name, state, reason, behind }) => ({ name, state, reason, behind })),
  )
  answer.addList(
    'tables',
    tables
      .filter(({ error }) => error !== null)
      .slice(0, TABLES)
      .map(({ name, state, error }) => ({ name, state, error })),
  )
  const told = lines.filter(({ level }) => level !== 'info').slice(-LINES)
  answer.addList(
    'log',
    told.map(({ level, message }) => ({ level, message: shortened(message) })),
  )
}
