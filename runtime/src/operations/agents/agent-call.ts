/**
 * A call as an agent makes it: in the name of whoever's token it has, and with less. Whatever its principal may see in clear
 * elsewhere is masked here; a confidential product takes a grant, a restricted one is out of reach. What it is given is
 * counted by the day, and each call is on record.
 */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { Principal, TenantCall } from '../../flow.ts'
import { actorOf } from '../../registry/actor.ts'
import { type AgentAccount, type AgentAmounts, reserveForAgent, settleForAgent } from '../../registry/agent-budgets.ts'
import { appendAudit } from '../../registry/audit.ts'
import { requireDeveloper } from '../permissions.ts'
import { type AgentAnswer, MAX_ANSWER_BYTES } from './bounded-answer.ts'
import type { AgentsDeps } from './deps.ts'

/** What a tool has found, and what that took. */
export interface AgentFindings {
  readonly answer: AgentAnswer
  readonly rows: number
  /** `namespace.name` of each product that it is of. */
  readonly products: readonly string[]
}

export interface AgentTool {
  readonly name: string
  /** What one answer of it may take at most. */
  readonly most: Pick<AgentAmounts, 'rows' | 'engineMs'>
  /** Whether the principal has to be one. What he is told is what a member is. */
  readonly isForDevelopers: boolean
  work(call: TenantCall): Promise<AgentFindings>
}

/** A call that fails is counted for so much. */
const BYTES_OF_FAILURE = 500
const PRODUCTS_ON_RECORD = 20

/**
 * Within what the principal may do: a member, and never more. Developers read raw tables of their connections, and
 * administrators everything; neither is lent to an agent.
 */
export function agentsPrincipal(principal: Principal): Principal {
  const { issuer, subject, key, isDeveloper, isViewer } = principal
  return {
    ...principal,
    isAdmin: false,
    isDeveloper: false,
    isViewer: isViewer || isDeveloper,
    key: {
      maker: key?.maker ?? { issuer, subject },
      products: key?.products ?? null,
      operations: key?.operations ?? ['query'],
      unmask: new Set(),
      isAgents: true,
    },
  }
}

/** Throws QUOTA `agent_budget_spent`, and whatever the tool does. */
export async function answerAgent(platform: AgentsDeps, call: TenantCall, tool: AgentTool): Promise<AgentAnswer> {
  const { pool, config } = platform
  const asked = { ...call, signal: call.signal, principal: agentsPrincipal(call.principal) }
  const account = accountOf(call)
  const limits = {
    rows: config.mcp.rows_per_day,
    bytes: config.mcp.kilobytes_per_day * 1000,
    engineMs: config.mcp.engine_seconds_per_day * 1000,
  }
  const reserved = await reserveForAgent(pool, account, { ...tool.most, bytes: MAX_ANSWER_BYTES }, limits)
  if (reserved === null) throw budgetSpent()
  const startedAtMs = performance.now()
  // Of tools that ask no engine nothing was set aside.
  const engineMs = () => (tool.most.engineMs === 0 ? 0 : performance.now() - startedAtMs)
  let used: AgentAmounts = { rows: 0, bytes: BYTES_OF_FAILURE, engineMs: 0 }
  try {
    if (tool.isForDevelopers) requireDeveloper(call.principal)
    const { answer, rows, products } = await tool.work(asked)
    used = { rows, bytes: answer.bytes, engineMs: engineMs() }
    const details = { rows, bytes: answer.bytes, products: products.slice(0, PRODUCTS_ON_RECORD) }
    await record(platform, call, tool, 'allowed', details)
    return answer
  } catch (error) {
    used = { ...used, engineMs: engineMs() }
    const code = isSluiceError(error) ? error.code : 'internal_error'
    await record(platform, call, tool, isSluiceError(error, 'PERMISSION') ? 'denied' : 'failed', { code })
    throw error
  } finally {
    await settleForAgent(pool, account, reserved, used)
  }
}

function accountOf({ tenant, principal: { issuer, subject, client = '' } }: TenantCall): AgentAccount {
  return { tenant, issuer, subject, client }
}

function record(
  { pool }: AgentsDeps,
  { tenant, principal, requestId }: TenantCall,
  { name }: AgentTool,
  outcome: 'allowed' | 'denied' | 'failed',
  details: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  return appendAudit(pool, {
    tenant,
    actor: actorOf(principal),
    action: 'read.mcp',
    objectType: 'tool',
    objectId: name,
    outcome,
    requestId,
    details: { client: principal.client ?? null, ...details },
  })
}

function budgetSpent(): SluiceError {
  return new SluiceError('QUOTA', 'what agents may be given in a day for this principal and client is used up', {
    code: 'agent_budget_spent',
    remedy: 'Stop here and say so. It begins anew at midnight UTC; an operator may raise mcp.* in the configuration.',
  })
}
