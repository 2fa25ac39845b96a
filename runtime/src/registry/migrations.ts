import type { MigrationList } from '../database/migrate.ts'
import { tenants } from './migrations/001-tenants.ts'
import { products } from './migrations/002-products.ts'
import { runs } from './migrations/003-runs.ts'
import { access } from './migrations/004-access.ts'
import { rawClassesTable } from './migrations/005-raw-classes.ts'
import { rateBuckets } from './migrations/006-rate-buckets.ts'
import { changeTopics } from './migrations/007-change-topics.ts'
import { allRawClasses } from './migrations/008-all-raw-classes.ts'
import { connectionNames } from './migrations/009-connection-names.ts'
import { grantsNameIssuers } from './migrations/010-grants-name-issuers.ts'
import { rights } from './migrations/013-rights.ts'
import { provisioning } from './migrations/015-provisioning.ts'
import { deletes } from './migrations/017-deletes.ts'
import { pausedProducts } from './migrations/018-paused-products.ts'
import { quarantine } from './migrations/019-quarantine.ts'
import { raisedClasses } from './migrations/020-raised-classes.ts'
import { whatGrantsRestOn } from './migrations/021-what-grants-rest-on.ts'
import { applicationKeys } from './migrations/024-application-keys.ts'
import { violatingRowsTable } from './migrations/025-violating-rows.ts'
import { cpuBudgets } from './migrations/027-cpu-budgets.ts'
import { runPlaces } from './migrations/027-run-places.ts'
import { valuesLeftOut } from './migrations/028-values-left-out.ts'
import { trinoStatements } from './migrations/029-trino-statements.ts'
import { clearanceOfKeys } from './migrations/031-clearance-of-keys.ts'
import { jobs } from './migrations/035-jobs.ts'
import { schedules } from './migrations/036-schedules.ts'
import { keptClasses } from './migrations/040-kept-classes.ts'
import { storeComparisons } from './migrations/050-store-comparisons.ts'
import { productSchedules } from './migrations/052-product-schedules.ts'
import { productFreshness } from './migrations/053-product-freshness.ts'
import { notifications } from './migrations/054-notifications.ts'
import { runRetention } from './migrations/064-run-retention.ts'
import { captures } from './migrations/068-captures.ts'
import { productInputs } from './migrations/070-product-inputs.ts'
import { agentBudgets } from './migrations/072-agent-budgets.ts'
import { pushedRows } from './migrations/074-pushed-rows.ts'
import { rowsRejected } from './migrations/076-rows-rejected.ts'
import { productReads } from './migrations/077-product-reads.ts'
import { judgedColumns } from './migrations/078-judged-columns.ts'
import { openLineageRuns } from './migrations/079-openlineage-runs.ts'
import { pastEpochsTables } from './migrations/081-past-epochs.ts'
import { exportsTable } from './migrations/083-exports.ts'
import { backfills } from './migrations/084-backfills.ts'
import { servicePasswordsTable } from './migrations/085-service-passwords.ts'
import { quarantineReplay } from './migrations/086-quarantine-replay.ts'
import { webhooks } from './migrations/087-webhooks.ts'
import { erasures } from './migrations/088-erasures.ts'
import { followsTables } from './migrations/090-follows.ts'
import { previews } from './migrations/092-previews.ts'
import { schemaContracts } from './migrations/094-schema-contracts.ts'
import { comparedDeployments } from './migrations/095-compared-deployments.ts'
import { expectations } from './migrations/097-expectations.ts'
import { exportPlaces } from './migrations/101-export-places.ts'
import { deletions } from './migrations/102-deletions.ts'
import { inputsOfVersions } from './migrations/103-inputs-of-versions.ts'
import { formerProducts } from './migrations/104-former-products.ts'
import { masksOfEpochs } from './migrations/105-masks-of-epochs.ts'
import { clock } from './migrations/108-clock.ts'
import { twoPlaces } from './migrations/109-two-places.ts'
import { logSpool } from './migrations/110-log-spool.ts'
import { leftRuns } from './migrations/112-left-runs.ts'

/**
 * The registry's tables. A released migration is never changed: a change is a new one at the end. It only adds (tables,
 * columns that are nullable or have a default), so that the release before goes on beside it; or it says `breaksOlder`.
 */
export const registryMigrations: MigrationList = {
  name: 'registry',
  migrations: [
    tenants,
    products,
    runs,
    access,
    rawClassesTable,
    rateBuckets,
    changeTopics,
    allRawClasses,
    connectionNames,
    grantsNameIssuers,
    pausedProducts,
    provisioning,
    rights,
    deletes,
    quarantine,
    applicationKeys,
    violatingRowsTable,
    raisedClasses,
    whatGrantsRestOn,
    cpuBudgets,
    valuesLeftOut,
    runPlaces,
    jobs,
    trinoStatements,
    clearanceOfKeys,
    schedules,
    keptClasses,
    storeComparisons,
    productSchedules,
    productFreshness,
    notifications,
    runRetention,
    captures,
    productInputs,
    agentBudgets,
    pushedRows,
    rowsRejected,
    productReads,
    judgedColumns,
    openLineageRuns,
    backfills,
    pastEpochsTables,
    exportsTable,
    servicePasswordsTable,
    quarantineReplay,
    webhooks,
    erasures,
    followsTables,
    previews,
    schemaContracts,
    comparedDeployments,
    expectations,
    exportPlaces,
    deletions,
    inputsOfVersions,
    formerProducts,
    masksOfEpochs,
    clock,
    twoPlaces,
    logSpool,
    leftRuns,
  ],
}
