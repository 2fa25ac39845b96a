import { awaitedSaboteurs, leavingSaboteurs, pageSaboteurs } from './awaited.ts'
import { claimSaboteurs } from './claims.ts'
import { contractReads } from './contract-reads.ts'
import { contractWrites } from './contract-writes.ts'
import { edgeSaboteurs } from './edges.ts'
import { endSaboteurs } from './ends-of-types.ts'
import { isolationSaboteurs } from './isolation.ts'
import { lifeCycleSaboteurs } from './life-cycle.ts'
import { momentSaboteurs } from './moments.ts'
import { nameSaboteurs } from './names.ts'
import { operationSaboteurs } from './operations.ts'
import { outsideReads } from './outside-reads.ts'
import { outsideWrites } from './outside-writes.ts'
import { placeSaboteurs } from './places.ts'
import { readSaboteurs } from './reads.ts'
import { timeSaboteurs } from './time.ts'
import { laterReadSaboteurs, unseenReadSaboteurs } from './unseen-reads.ts'
import { laterWriteSaboteurs, unseenWriteSaboteurs } from './unseen-writes.ts'
import type { Saboteur } from './wrap.ts'
import { writeSaboteurs } from './writes.ts'

/** Each breaks one promise; the suite is as good as what it catches of them. */
export const SABOTEURS: readonly Saboteur[] = [
  ...claimSaboteurs,
  ...writeSaboteurs,
  ...momentSaboteurs,
  ...lifeCycleSaboteurs,
  ...nameSaboteurs,
  ...placeSaboteurs,
  ...readSaboteurs,
  ...operationSaboteurs,
  ...isolationSaboteurs,
  ...timeSaboteurs,
  ...endSaboteurs,
  ...edgeSaboteurs,
  ...contractReads,
  ...contractWrites,
  ...unseenReadSaboteurs,
  ...unseenWriteSaboteurs,
  ...laterReadSaboteurs,
  ...laterWriteSaboteurs,
  ...awaitedSaboteurs,
  ...pageSaboteurs,
  ...leavingSaboteurs,
  ...outsideWrites,
  ...outsideReads,
]

export { nullStorePlugin } from './null-store.ts'
export type { Saboteur } from './wrap.ts'
