import { CONNECTOR_CHECKS, testConnector } from '@sluice/conformance'
import { start } from './conformance.ts'
import plugin from './index.ts'

// What is asked of its log takes as long again, and is asked beside the whole level by conformance.stack.test.ts.
testConnector({ plugin, start, checks: CONNECTOR_CHECKS.filter(({ requires }) => requires !== 'cdc') })
