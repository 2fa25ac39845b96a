/** Errors of the runtime as clients of PostgreSQL know them: a SQLSTATE, with the runtime's own words, code and remedy. */
import { isSluiceError } from '@sluice/sdk'
import { problemOf } from '../../http/problem.ts'
import { WireError } from '../protocol/wire-error.ts'

const STATES: Readonly<Record<string, string>> = {
  sql_syntax_error: '42601',
  sql_not_allowed: '0A000',
  sql_unsupported: '0A000',
  sql_too_long: '54000',
  sql_invalid: '42000',
  sql_invalid_input: '22023',
  table_not_found: '42P01',
  product_not_found: '42P01',
  column_not_found: '42703',
  not_materialized: '55000',
  mask_pending: '55000',
  snapshot_not_found: '22023',
  query_timeout: '57014',
  query_memory_exceeded: '53200',
  query_result_too_large: '54000',
  query_failed: '22000',
  cpu_time_spent: '53400',
  engine_busy: '53300',
  rate_limited: '53400',
  too_many_at_once: '53300',
  right_ended: '42501',
}

const BY_STATUS: Readonly<Record<number, string>> = {
  400: '42000',
  401: '28000',
  403: '42501',
  404: '42P01',
  408: '57014',
  409: '55000',
  422: '22000',
  429: '53000',
  503: '57P03',
}

/** @param requestId is told where nothing else is: the runtime's log has the same */
export function explained(error: unknown, requestId: string): WireError {
  if (error instanceof WireError) return error
  const { status, body } = problemOf(error, { requestId, instance: '/' })
  const { code, detail, title, remedy } = JSON.parse(body) as Record<string, string>
  const given = isSluiceError(error) ? error.details?.['sql_state'] : undefined
  const state = typeof given === 'string' ? given : (STATES[String(code)] ?? BY_STATUS[status] ?? 'XX000')
  const told = state === 'XX000' ? `${detail ?? title} (request ${requestId})` : String(detail ?? title)
  return new WireError(state, told, {
    ...(code === undefined ? {} : { code }),
    ...(remedy === undefined ? {} : { hint: remedy }),
  })
}

/** Whether the operator has to look: it is no answer to what was asked. */
export const isFault = (error: unknown): boolean =>
  !(error instanceof WireError) && (!isSluiceError(error) || error.kind === 'INTERNAL')
