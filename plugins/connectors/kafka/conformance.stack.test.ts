import { testConnector } from '@sluice/conformance'
import { start } from './conformance.ts'
import plugin from './index.ts'

testConnector({ plugin, start, level: 'full' })
