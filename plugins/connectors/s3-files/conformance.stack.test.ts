import { testConnector } from '@sluice/conformance'
import * as fixture from './conformance.ts'
import plugin from './index.ts'

testConnector({ plugin, ...fixture, level: 'full' })
