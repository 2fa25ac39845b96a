/** What the materializer works with. */
import type { Engine, EngineLimits, StorageRoom } from '@sluice/engine'
import type { Lake } from '@sluice/iceberg'
import type { Compute } from '@sluice/sdk'
import type pg from 'pg'
import type { FaultPoint } from '../fault-points.ts'
import type { Input, ManifestSet } from '../manifest/manifest-set.ts'
import type { CheckResult } from '../quality/check-result.ts'
import type { Learned } from '../quality/teaching.ts'
import type { Materialization, NewMaterialization } from '../registry/materializations.ts'
import type { Product } from '../registry/products.ts'
import type { MaskKeyDeps } from './deployed.ts'
import type { Expected, ExpectingInput } from './expected.ts'
import type { InputState } from './input-state.ts'
import type { UpstreamAccess } from './inputs.ts'
import type { Prepared } from './prepared.ts'
import type { SyncEndpointsDeps } from './sync-endpoints.ts'
import type { ViolationsByVariant } from './violating-rows.ts'

export interface PrepareDeps {
  readonly engine: Engine
  /** Null where no engine outside is configured. */
  readonly distributed: Compute | null
  readonly lake: Lake
  readonly faultPoint: FaultPoint
  readonly scratchDirectory: string
  readonly nowMs: () => number
}

export interface MaterializeDeps extends PrepareDeps, SyncEndpointsDeps, MaskKeyDeps {
  /** Of authors' SQL, unless compute.yaml says less. */
  readonly transformLimits: EngineLimits
  /** Those whose results everybody may know. */
  openChecks(product: Product, version: string, checks: readonly CheckResult[]): Promise<readonly CheckResult[]>
  /** Inputs of products in service that are made of this one and expect something of it, as those may read it today. */
  expectingInputs(product: Product): Promise<readonly ExpectingInput[]>
  /** Opens and closes incidents, in the transaction that publishes the rows or keeps that they were not. */
  noteExpectations(tx: pg.PoolClient, product: Product, expected: Expected): Promise<void>
  /** In place of those of the materialization before. */
  keepViolations(tx: pg.PoolClient, materialization: Materialization, found: ViolationsByVariant): Promise<void>
  /** What the epochs before have taught the version's anomaly checks, for rows of these inputs. */
  learned(product: Product, manifests: ManifestSet, inputs: NewMaterialization['inputs']): Promise<Learned>
  /** For the epochs to come. */
  keepProfiles(tx: pg.PoolClient, materialization: Materialization, profiles: Prepared['profiles']): Promise<void>
  /** Rows of the inputs that their contracts put aside, in place of those of the epoch before. */
  keepAside(tx: pg.PoolClient, product: Product, runId: string, inputs: readonly InputState[]): Promise<void>
  /**
   * That the run makes the product, for whoever is told of runs; before its work, and again where it is taken up. Null: the
   * version is not known.
   */
  noteBegun(product: Product, runId: string, version: string | null): Promise<void>
  /** Appends to the tenant's events, in the transaction of the commit. */
  announce(tx: pg.PoolClient, product: Product, materialization: Materialization): Promise<void>
  /** An input of the version that is a product. Throws PERMISSION `input_forbidden`. */
  upstreamOf(product: Product, version: string, input: Input): Promise<UpstreamAccess>
  /** What the tenant may still store. Throws QUOTA `tier_limit_exceeded`. */
  checkStorage(tenant: string): Promise<StorageRoom>
}
