"""Networks for faces: SENet-50 of VGGFace2, and IResNet-50 of ArcFace with the weights that InsightFace publishes."""

__all__ = ["iresnet", "iresnet_onnx", "senet"]
