package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	v1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	v1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// reflect lists the services and finds the file of a symbol, as grpcurl does, by both versions.
func (p *Program) reflect(ctx context.Context, symbol string) (Answer, error) {
	connection, err := grpc.NewClient(p.endpoint, grpc.WithTransportCredentials(p.credentials()))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	newer, err := reflectV1(ctx, connection, symbol)
	if err != nil {
		return nil, err
	}
	older, err := reflectV1Alpha(ctx, connection, symbol)
	return Answer{"v1": newer, "v1alpha": older}, err
}

func reflectV1(ctx context.Context, connection *grpc.ClientConn, symbol string) (Answer, error) {
	stream, err := v1.NewServerReflectionClient(connection).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.CloseSend()
	list := &v1.ServerReflectionRequest_ListServices{}
	if err = stream.Send(&v1.ServerReflectionRequest{MessageRequest: list}); err != nil {
		return nil, err
	}
	listed, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	var services []string
	for _, service := range listed.GetListServicesResponse().GetService() {
		services = append(services, service.Name)
	}
	find := &v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}
	if err = stream.Send(&v1.ServerReflectionRequest{MessageRequest: find}); err != nil {
		return nil, err
	}
	found, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	return described(services, found.GetFileDescriptorResponse().GetFileDescriptorProto())
}

func reflectV1Alpha(ctx context.Context, connection *grpc.ClientConn, symbol string) (Answer, error) {
	stream, err := v1alpha.NewServerReflectionClient(connection).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.CloseSend()
	list := &v1alpha.ServerReflectionRequest_ListServices{}
	if err = stream.Send(&v1alpha.ServerReflectionRequest{MessageRequest: list}); err != nil {
		return nil, err
	}
	listed, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	var services []string
	for _, service := range listed.GetListServicesResponse().GetService() {
		services = append(services, service.Name)
	}
	find := &v1alpha.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}
	if err = stream.Send(&v1alpha.ServerReflectionRequest{MessageRequest: find}); err != nil {
		return nil, err
	}
	found, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	return described(services, found.GetFileDescriptorResponse().GetFileDescriptorProto())
}

func described(services []string, files [][]byte) (Answer, error) {
	if len(files) == 0 {
		return nil, fmt.Errorf("no file was found")
	}
	var file descriptorpb.FileDescriptorProto
	if err := proto.Unmarshal(files[0], &file); err != nil {
		return nil, err
	}
	return Answer{"services": services, "file": file.GetName()}, nil
}
