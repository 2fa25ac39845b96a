import type { Check } from './check.ts'
import { answerEdgeChecks } from './checks/answer-edges.ts'
import { awaitedChecks } from './checks/awaited.ts'
import { besideChecks } from './checks/beside.ts'
import { capabilityChecks } from './checks/capabilities.ts'
import { commitChecks } from './checks/commits.ts'
import { concurrencyChecks } from './checks/concurrency.ts'
import { crashChecks } from './checks/crash.ts'
import { declaredChecks } from './checks/declared.ts'
import { declaredBesideChecks } from './checks/declared-beside.ts'
import { digestChecks } from './checks/digest.ts'
import { endsOfTypesChecks } from './checks/ends-of-types.ts'
import { everyPageChecks } from './checks/every-page.ts'
import { everyPlanChecks } from './checks/every-plan.ts'
import { fenceChecks } from './checks/fence.ts'
import { growthChecks } from './checks/growth.ts'
import { historyChecks } from './checks/history.ts'
import { idempotencyChecks } from './checks/idempotency.ts'
import { isolationChecks } from './checks/isolation.ts'
import { keyEdgeChecks } from './checks/key-edges.ts'
import { madeAnewChecks } from './checks/made-anew.ts'
import { manifestChecks } from './checks/manifest.ts'
import { maskingChecks } from './checks/masking.ts'
import { nearNameChecks } from './checks/near-names.ts'
import { nearStateChecks } from './checks/near-states.ts'
import { notThereChecks } from './checks/not-there.ts'
import { openingChecks } from './checks/opening.ts'
import { pageChecks } from './checks/pages.ts'
import { policyChecks } from './checks/policy.ts'
import { provisionedAgainChecks } from './checks/provisioned-again.ts'
import { provisioningChecks } from './checks/provisioning.ts'
import { readEdgeChecks } from './checks/read-edges.ts'
import { readingChecks } from './checks/reading.ts'
import { realtimeChecks } from './checks/realtime.ts'
import { rejectChecks } from './checks/rejects.ts'
import { roundTripChecks } from './checks/round-trip.ts'
import { scheduleChecks } from './checks/schedules.ts'
import { schemaChecks } from './checks/schemas.ts'
import { setEdgeChecks } from './checks/set-edges.ts'
import { takenSchemaChecks } from './checks/taken-schemas.ts'
import { timeEdgeChecks } from './checks/time-edges.ts'
import { timeseriesChecks } from './checks/timeseries.ts'
import { twinChecks } from './checks/twins.ts'
import { workChecks } from './checks/work.ts'

/** Every check, in the order of its number. */
export const CHECKS: readonly Check[] = [
  ...manifestChecks,
  ...openingChecks,
  ...capabilityChecks,
  ...rejectChecks,
  ...commitChecks,
  ...workChecks,
  ...everyPlanChecks,
  ...nearNameChecks,
  ...besideChecks,
  ...declaredBesideChecks,
  ...twinChecks,
  ...idempotencyChecks,
  ...roundTripChecks,
  ...readingChecks,
  ...declaredChecks,
  ...endsOfTypesChecks,
  ...pageChecks,
  ...schemaChecks,
  ...keyEdgeChecks,
  ...timeEdgeChecks,
  ...provisioningChecks,
  ...concurrencyChecks,
  ...crashChecks,
  ...scheduleChecks,
  ...fenceChecks,
  ...isolationChecks,
  ...policyChecks,
  ...maskingChecks,
  ...historyChecks,
  ...timeseriesChecks,
  ...realtimeChecks,
  ...digestChecks,
  ...madeAnewChecks,
  ...readEdgeChecks,
  ...awaitedChecks,
  ...notThereChecks,
  ...provisionedAgainChecks,
  ...growthChecks,
  ...everyPageChecks,
  ...setEdgeChecks,
  ...nearStateChecks,
  ...answerEdgeChecks,
  ...takenSchemaChecks,
].sort((left, right) => left.id - right.id)
