/**
 * An example of every operation, by its name: what is asked and what is answered. The document and its page show them;
 * acceptance tests hold them against their schemas and against what a runtime answers.
 */
import type { OperationExamples } from '../example.ts'
import { CONNECTION_EXAMPLES } from './examples/connections.ts'
import { LINEAGE_EXAMPLES } from './examples/lineage.ts'
import { PLATFORM_EXAMPLES } from './examples/platform.ts'
import { PRODUCT_EXAMPLES } from './examples/products.ts'
import { READING_EXAMPLES } from './examples/reading.ts'
import { RUN_EXAMPLES } from './examples/runs.ts'
import { TENANT_EXAMPLES } from './examples/tenants.ts'
import { WEBHOOK_EXAMPLES } from './examples/webhooks.ts'

export const EXAMPLES: OperationExamples = {
  ...TENANT_EXAMPLES,
  ...CONNECTION_EXAMPLES,
  ...PRODUCT_EXAMPLES,
  ...LINEAGE_EXAMPLES,
  ...READING_EXAMPLES,
  ...RUN_EXAMPLES,
  ...PLATFORM_EXAMPLES,
  ...WEBHOOK_EXAMPLES,
}
