import type { Wall } from '@sluice/engine'
import type { AgentsDeps } from '../operations/agents/deps.ts'
import type { CatalogDeps } from '../operations/catalog/deps.ts'
import type { ErasuresDeps } from '../operations/erasures/deps.ts'
import type { ExportsDeps } from '../operations/exports/deps.ts'
import type { LineageDeps } from '../operations/lineage/deps.ts'
import type { PreviewsDeps } from '../operations/previews/deps.ts'
import type { ServedDeps } from '../operations/served/deps.ts'
import type { UpkeepDeps } from '../operations/upkeep/deps.ts'
import type { WebhooksDeps } from '../operations/webhooks/deps.ts'

/** All that operations work with: the parts of the runtime, put together once by the container. */
export interface Platform
  extends AgentsDeps,
    CatalogDeps,
    ErasuresDeps,
    ExportsDeps,
    LineageDeps,
    PreviewsDeps,
    ServedDeps,
    UpkeepDeps,
    WebhooksDeps {
  /** Of the process that read a source last; none before the first. */
  readonly sourceWalls: () => readonly Wall[]
}
