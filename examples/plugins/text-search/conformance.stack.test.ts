import { testServingStore } from '@sluice/conformance'
import * as fixture from './conformance.ts'
import plugin from './index.ts'

testServingStore({ plugin, ...fixture, level: 'full' })
