/** Rows for training, for an agent: the set that REST gives, its first rows alone. The whole is a file, which no model reads. */
import type { TenantCall } from '../../flow.ts'
import { type AskedTrainingSet, runTrainingSet } from '../queries/training-set.ts'
import type { AgentFindings } from './agent-call.ts'
import { boundedRows, MAX_ROWS, requireQueries, STATEMENT_MS } from './ask-rows.ts'
import type { AgentsDeps } from './deps.ts'

export async function trainingSetForAgent(
  platform: AgentsDeps,
  call: TenantCall,
  asked: Omit<AskedTrainingSet, 'format' | 'limit' | 'timeout_ms'>,
): Promise<AgentFindings> {
  requireQueries(call)
  const bounds = { format: 'json', limit: MAX_ROWS, timeout_ms: STATEMENT_MS } as const
  return boundedRows(await runTrainingSet(platform, call, { ...asked, ...bounds }), nextStep)
}

const WHOLE = 'The same arguments as the body of POST /api/v1/training-sets give all rows, as a file.'

function nextStep(shown: number, isWhole: boolean): string {
  if (isWhole) return 'These are all rows of this set.'
  if (shown === 0) return `Not one row fits an answer: name few, short columns. ${WHOLE}`
  return `Only the first ${shown} rows are shown. ${WHOLE}`
}
