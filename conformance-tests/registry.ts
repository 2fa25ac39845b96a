import type { Check } from './check.ts'
import { crashChecks } from './checks/crash.ts'
import { fenceChecks } from './checks/fence.ts'
import { idempotencyChecks } from './checks/idempotency.ts'
import { roundTripChecks } from './checks/round-trip.ts'

/** Every check, in the order of its number. */
export const CHECKS: readonly Check[] = [...roundTripChecks, ...idempotencyChecks, ...crashChecks, ...fenceChecks].sort(
  (left, right) => left.id - right.id,
)
